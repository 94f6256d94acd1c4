package vfs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/test/cost"
)

// above finds exactly the directories above a path, of those that are pending.
func TestPendingDirsAboveFindsAncestors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newPendingDirs()
		path := rapid.StringMatching(`[ab](/[ab]){0,4}`)
		pending := make(map[string]bool)
		for range 30 {
			p := path.Draw(t, "path")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				d.add(p)
				pending[p] = true
			case 1:
				d.remove(p)
				delete(pending, p)
			}
			want := false
			for other := range pending {
				want = want || strings.HasPrefix(p, other+"/")
			}
			if got := d.above(p); got != want {
				t.Fatalf("above %q of %v: %v", p, pending, got)
			}
			if int(d.n.Load()) != len(pending) || len(d.paths) != len(pending) {
				t.Fatalf("%d paths, want %d", d.n.Load(), len(pending))
			}
		}
	})
}

// The look-up of a path with n directories takes time proportional to n. A look-up that hashes each
// directory anew takes time proportional to the square of n.
func TestPendingDirsTimeIsProportionalToPath(t *testing.T) {
	d := newPendingDirs()
	d.add("elsewhere")
	lookUp := func(n int) func() time.Duration {
		path := strings.Repeat(strings.Repeat("a", 63)+"/", n)
		return func() time.Duration {
			start := time.Now()
			d.above(path)
			return time.Since(start)
		}
	}
	const few, factor = 16, 128
	cost.WantAtMost(t, 8*factor, lookUp(few), lookUp(few*factor))
}

// A file leaves the list of its opens in the same time for any number of opens.
func TestNodeRemovesItsOpens(t *testing.T) {
	n := &node{}
	opens := make([]*Open, 7)
	for i := range opens {
		opens[i] = &Open{id: uint64(i)}
		n.add(opens[i])
	}
	for _, i := range []int{3, 6, 0, 5, 1, 4, 2} {
		n.remove(opens[i])
		for at, o := range n.opens {
			if o.entry.at != at || o == opens[i] {
				t.Fatalf("after %d: open %d at %d, with index %d", i, o.id, at, o.entry.at)
			}
		}
	}
	if fmt.Sprint(n.opens) != "[]" {
		t.Errorf("%d opens are left", len(n.opens))
	}
}

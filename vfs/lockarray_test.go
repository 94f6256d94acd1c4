package vfs

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/account"
	"lwio/internal/test/cost"
)

// A request clashes with itself if an exclusive lock overlaps an earlier lock.
func TestClashMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		locks := make([]Lock, rapid.IntRange(0, 8).Draw(t, "locks"))
		want := false
		for i := range locks {
			l := Lock{Range{rapid.Uint64Range(0, 20).Draw(t, "off"), rapid.Uint64Range(0, 4).Draw(t, "len")}, rapid.Bool().Draw(t, "exclusive")}
			if rapid.IntRange(0, 7).Draw(t, "end") == 0 {
				l.Range = Range{-l.Off - 1, min(l.Len, l.Off+1)}
			}
			locks[i] = l
			for _, m := range locks[:i] {
				want = want || l.Exclusive && m.overlaps(l.Range)
			}
		}
		if got := clash(locks); got != want {
			t.Fatalf("%v: %v", locks, got)
		}
	})
}

// The time of a request is proportional to the number of its locks of all kinds, also below a lock that reaches over
// all of them.
func TestLockTimeIsProportionalToNumberOfLocks(t *testing.T) {
	for name, lock := range map[string]func(i, n int) Lock{
		"exclusive": func(i, _ int) Lock { return Lock{Range{uint64(2*i + 1), 1}, true} },
		"shared":    func(i, _ int) Lock { return Lock{Range{uint64(2*i + 1), 1}, false} },
		"both": func(i, n int) Lock {
			if i < n/2 {
				return Lock{Range{uint64(2*i + 1), 1}, true}
			}
			return Lock{Range{1, uint64(2 * n)}, false}
		},
	} {
		t.Run(name, func(t *testing.T) {
			take := func(n int) func() time.Duration {
				locks, ranges := make([]Lock, n), make([]Range, n)
				for i := range locks {
					locks[i] = lock(i, n)
					ranges[i] = locks[i].Range
				}
				return func() time.Duration {
					quota := &lockQuota{all: account.NewSum(1<<20, 0), perFile: 1 << 20, perOpen: 1 << 20}
					k := &openLocks{table: new(lockTable), quota: quota, user: "alice"}
					if name == "shared" {
						if err := errors.Join(k.try([]Lock{{Range{0, 1 << 62}, false}}), k.try(locks)); err != nil {
							t.Fatal(err)
						}
					}
					start := time.Now()
					if err := k.try(locks); err != nil {
						t.Fatal(err)
					}
					if err := k.unlock(ranges); err != nil {
						t.Fatal(err)
					}
					return time.Since(start)
				}
			}
			const few, factor = 64, 64
			cost.WantAtMost(t, 8*factor, take(few), take(few*factor))
		})
	}
}

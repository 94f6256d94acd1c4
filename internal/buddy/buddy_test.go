package buddy

import (
	"testing"

	"pgregory.net/rapid"
)

// Allocated blocks never overlap and are aligned to their size, and once all are released the whole
// range is free again.
func TestBlocksNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const top = 4
		tops := rapid.IntRange(1, 3).Draw(t, "tops")
		b := New(tops<<top+rapid.IntRange(0, 1<<top-1).Draw(t, "more"), top)
		if len(b.units) != tops<<top {
			t.Fatalf("%d units, want %d", len(b.units), tops<<top)
		}
		owner := make([]int32, tops<<top) // 1 + first unit of the block, 0 if free
		out := map[int32]int{}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				order := rapid.IntRange(0, top).Draw(t, "order")
				at, ok := b.Alloc(order)
				if ok != fits(owner, order) {
					t.Fatalf("alloc of order %d: %v in %v", order, ok, owner)
				}
				if !ok {
					return
				}
				if int(at)%(1<<order) != 0 {
					t.Fatalf("block of order %d at %d", order, at)
				}
				for i := range 1 << order {
					if owner[int(at)+i] != 0 {
						t.Fatalf("unit %d is out twice", int(at)+i)
					}
					owner[int(at)+i] = at + 1
				}
				out[at] = order
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing out")
				}
				at := rapid.SampledFrom(sortedKeys(out)).Draw(t, "at")
				if got := b.Release(at); got != 1<<out[at] {
					t.Fatalf("release of %d gave %d units, want %d", at, got, 1<<out[at])
				}
				for i := range 1 << out[at] {
					owner[int(at)+i] = 0
				}
				delete(out, at)
			},
		})
		for at := range out {
			b.Release(at)
		}
		for range tops {
			if _, ok := b.Alloc(top); !ok {
				t.Fatal("blocks were not joined again")
			}
		}
	})
}

// fits reports whether an aligned run of free units is there.
func fits(owner []int32, order int) bool {
	for at := 0; at < len(owner); at += 1 << order {
		free := true
		for i := range 1 << order {
			free = free && owner[at+i] == 0
		}
		if free {
			return true
		}
	}
	return false
}

func sortedKeys(m map[int32]int) []int32 {
	var keys []int32
	for k := int32(0); len(keys) < len(m); k++ {
		if _, ok := m[k]; ok {
			keys = append(keys, k)
		}
	}
	return keys
}

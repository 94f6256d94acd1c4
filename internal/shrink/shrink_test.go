package shrink

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A Map has the entries of a map of the language.
func TestMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int, int]
		want := map[int]int{}
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			k := rapid.IntRange(0, 200).Draw(t, "key")
			if rapid.Bool().Draw(t, "set") {
				m.Set(k, i)
				want[k] = i
			} else {
				m.Delete(k)
				delete(want, k)
			}
			value, ok := m.Get(k)
			if v, there := want[k]; value != v || ok != there {
				t.Fatalf("key %d: %d, %v; want %d, %v", k, value, ok, v, there)
			}
		}
		if got := maps.Collect(m.All()); m.Len() != len(want) || !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestSliceKeepsContent(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 100, 1000} {
		s := make([]int, 1000)
		for i := range s {
			s[i] = i
		}
		got := Slice(s[:n])
		if !slices.Equal(got, s[:n]) {
			t.Errorf("%d of 1000: %v", n, got)
		}
		if cap(got) > max(4*n, 0) {
			t.Errorf("%d of 1000: room for %d", n, cap(got))
		}
	}
	if s := make([]int, 0, 8); cap(Slice(s)) != 8 {
		t.Error("a short slice is copied")
	}
}

// A Map that has lost nearly all of its entries holds little memory.
func TestMapGivesMemoryBack(t *testing.T) {
	const each, n = 4096, 50
	list := make([]Map[int, [4]uint64], n)
	before := heap()
	for i := range list {
		for k := range each {
			list[i].Set(k, [4]uint64{})
		}
		for k := range each - 1 {
			list[i].Delete(k)
		}
	}
	if more := heap() - before; more > n*(8<<10) {
		t.Errorf("%d bytes for a map with one entry", more/n)
	}
	runtime.KeepAlive(list)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package fileio

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A list keeps its operations in order through random changes.
func TestSendListKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l sendList
	var want []*operation
	for range 10_000 {
		switch n := r.IntN(5); {
		case n == 0:
			ops := make([]*operation, r.IntN(4))
			for i := range ops {
				ops[i] = new(operation)
			}
			l.pushFront(ops...)
			want = slices.Concat(ops, want)
		case n == 1 && len(want) > 0:
			o := want[r.IntN(len(want))]
			l.remove(o)
			l.remove(o) // does nothing
			want = slices.DeleteFunc(want, func(x *operation) bool { return x == o })
		case n == 2 && len(want) > 0:
			if l.first() != want[0] {
				t.Fatal("another operation is first")
			}
			l.pop()
			want = want[1:]
		case n == 3 && r.IntN(50) == 0:
			l.clear()
			want = nil
		default:
			o := new(operation)
			l.push(o)
			want = append(want, o)
		}
		if !slices.Equal(l.waiting(), want) || l.empty() != (len(want) == 0) {
			t.Fatalf("%d operations, not %d, or in another order", len(l.waiting()), len(want))
		}
	}
}

// A list that is filled and emptied again and again does not allocate.
func TestSendListReusesItsMemory(t *testing.T) {
	l := sendList{ops: make([]*operation, 0, 8)}
	o := new(operation)
	if n := testing.AllocsPerRun(100, func() {
		for range 6 {
			l.push(o)
		}
		l.pop()
		l.pushFront(o)
		for range 5 {
			l.pop()
			l.push(o)
		}
		for !l.empty() {
			l.pop()
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

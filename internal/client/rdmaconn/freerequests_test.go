package rdmaconn

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// freeOf makes n entries, all of them free.
func freeOf(n int) *freeRequests {
	requests := make([]Request, n)
	f := new(freeRequests)
	f.init(requests)
	for i := range requests {
		requests[i].index = i
		f.put(&requests[i])
	}
	return f
}

// A taken request was free, and no request is free twice.
func TestFreeRequestsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 150
		f, taken := freeOf(n), map[int]*Request{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			want := rapid.IntRange(1, 80).Draw(t, "want")
			some := f.takeSome(want)
			if k := bits.OnesCount64(some.members); k > want || k == 0 && len(taken) < n {
				t.Fatalf("%d of %d, while %d of %d are taken", k, want, len(taken), n)
			}
			for use := rapid.IntRange(0, want).Draw(t, "use"); use > 0; use-- {
				if s := f.next(&some); s != nil {
					if taken[s.index] != nil {
						t.Fatalf("%d was taken twice", s.index)
					}
					taken[s.index] = s
				}
			}
			f.putBack(some)
			for i, s := range taken {
				if rapid.Bool().Draw(t, "back") {
					f.put(s)
					delete(taken, i)
				}
			}
			if f.size() != n-len(taken) {
				t.Fatalf("%d are free, want %d", f.size(), n-len(taken))
			}
		}
	})
}

// Waiters are served in order and before a caller that does not wait; the request of a waiter
// that leaves goes to the next.
func TestFreeRequestsServeWaitersInOrder(t *testing.T) {
	f := freeOf(1)
	s := f.take()
	first, second, third := f.join(), f.join(), f.join()
	if f.take() != nil {
		t.Fatal("taken twice")
	}
	f.put(s)
	if len(first) != 1 || len(second) != 0 || f.take() != nil {
		t.Fatal("it did not go to the first")
	}
	f.leave(second)
	f.leave(first)
	if len(third) != 1 || f.take() != nil {
		t.Fatal("it did not go on to the third")
	}
	f.put(<-third)
	f.leave(third)
	if f.size() != 1 || f.take() != s {
		t.Fatal("it is not there any more")
	}
	if again := f.join(); len(again) != 0 || len(f.queue) != 1 {
		t.Fatal("a place that was used before is not as new")
	}
}

// Many take, wait and give back; each entry has one owner, and no call waits for ever.
func TestFreeRequestsHaveOneOwner(t *testing.T) {
	f := freeOf(3)
	var owners [3]atomic.Int32
	hold := func(s *Request) {
		if owners[s.index].Add(1) != 1 {
			t.Errorf("request %d has two owners", s.index)
		}
		runtime.Gosched()
		owners[s.index].Add(-1)
		f.put(s)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				if s := f.take(); s != nil {
					hold(s)
					continue
				}
				place := f.join()
				hold(<-place)
				f.leave(place)
			}
		})
		all.Go(func() {
			for range 500 {
				f.leave(f.join())
				f.putBack(f.takeSome(2))
			}
		})
	}
	all.Wait()
	if f.size() != 3 || f.waiting.Load() != 0 {
		t.Errorf("%d are free, %d wait", f.size(), f.waiting.Load())
	}
}

func TestRequestSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 200
		set, want := newRequestSet(n), map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(-n+1, n-1)).Draw(t, "changes") {
			if i >= 0 {
				set.add(i)
				want[i] = true
			} else {
				set.remove(-i)
				delete(want, -i)
			}
		}
		count := 0
		set.each(func(i int) {
			if count++; !want[i] {
				t.Fatalf("%d is not a member", i)
			}
		})
		if count != len(want) || set.empty() != (len(want) == 0) {
			t.Fatalf("%d members, want %d", count, len(want))
		}
	})
}

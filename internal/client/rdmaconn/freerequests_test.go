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
	f.Init(requests)
	for i := range requests {
		requests[i].Index = i
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
			some := f.TakeSome(want)
			if k := bits.OnesCount64(some.Members); k > want || k == 0 && len(taken) < n {
				t.Fatalf("%d of %d, while %d of %d are taken", k, want, len(taken), n)
			}
			for use := rapid.IntRange(0, want).Draw(t, "use"); use > 0; use-- {
				if s := f.Next(&some); s != nil {
					if taken[s.Index] != nil {
						t.Fatalf("%d was taken twice", s.Index)
					}
					taken[s.Index] = s
				}
			}
			f.putBack(some)
			for i, s := range taken {
				if rapid.Bool().Draw(t, "back") {
					f.put(s)
					delete(taken, i)
				}
			}
			if f.Size() != n-len(taken) {
				t.Fatalf("%d are free, want %d", f.Size(), n-len(taken))
			}
		}
	})
}

// Waiters are served in order and before a caller that does not wait; the request of a waiter
// that leaves goes to the next.
func TestFreeRequestsOrder(t *testing.T) {
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
	if f.Size() != 1 || f.take() != s {
		t.Fatal("it is not there any more")
	}
	if again := f.join(); len(again) != 0 || len(f.queue) != 1 {
		t.Fatal("a place that was used before is not as new")
	}
}

// Many take, wait and give back; each entry has one owner, and no call waits for ever.
func TestFreeRequestsTogether(t *testing.T) {
	f := freeOf(3)
	var owners [3]atomic.Int32
	hold := func(s *Request) {
		if owners[s.Index].Add(1) != 1 {
			t.Errorf("request %d has two owners", s.Index)
		}
		runtime.Gosched()
		owners[s.Index].Add(-1)
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
				f.putBack(f.TakeSome(2))
			}
		})
	}
	all.Wait()
	if f.Size() != 3 || f.Waiting.Load() != 0 {
		t.Errorf("%d are free, %d wait", f.Size(), f.Waiting.Load())
	}
}

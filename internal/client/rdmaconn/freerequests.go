package rdmaconn

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// freeRequests are the entries that are granted and not in use. To take some that are there,
// and to give some back while no call waits, is one atomic operation for up to 64. Waiting
// calls come before others, in the order in which they came. Safe for concurrent
// use.
type freeRequests struct {
	requests []Request
	Set      requestSet
	Waiting  atomic.Int32 // the length of queue; changes under mu

	mu    sync.Mutex // guards the following fields
	queue []chan *Request
	spare []chan *Request // of those that have waited
}

func (f *freeRequests) Init(requests []Request) {
	f.requests, f.Set = requests, NewRequestSet(len(requests))
}

// Size is how many there are.
func (f *freeRequests) Size() (n int) {
	for i := range f.Set {
		n += bits.OnesCount64(f.Set[i].Load())
	}
	return n
}

// put adds one.
func (f *freeRequests) put(s *Request) { f.putBack(SomeRequests{s.Index / 64, 1 << (s.Index % 64)}) }

// putBack adds some.
func (f *freeRequests) putBack(some SomeRequests) {
	if some.Members == 0 {
		return
	}
	f.Set[some.word].Or(some.Members)
	if f.Waiting.Load() > 0 {
		f.mu.Lock()
		f.serveLocked()
		f.mu.Unlock()
	}
}

// take takes one; nil says that there is none, or that others wait.
func (f *freeRequests) take() *Request {
	some := f.TakeSome(1)
	return f.Next(&some)
}

// TakeSome takes up to n, of those that are next to each other. There are none if others
// wait.
func (f *freeRequests) TakeSome(n int) SomeRequests {
	if f.Waiting.Load() > 0 {
		return SomeRequests{}
	}
	return f.Set.takeSome(n)
}

// Next takes one of some that were taken, or returns nil.
func (f *freeRequests) Next(some *SomeRequests) *Request {
	if some.Members == 0 {
		return nil
	}
	i := 64*some.word + bits.TrailingZeros64(some.Members)
	some.Members &= some.Members - 1
	return &f.requests[i]
}

// serveLocked gives the free entries to the waiting calls.
func (f *freeRequests) serveLocked() {
	for len(f.queue) > 0 {
		some := f.Set.takeSome(1)
		s := f.Next(&some)
		if s == nil {
			return
		}
		f.queue[0] <- s
		f.leaveLocked(0)
	}
}

// leaveLocked takes the one at place i out of the queue.
func (f *freeRequests) leaveLocked(i int) {
	f.queue = slices.Delete(f.queue, i, i+1)
	f.Waiting.Add(-1)
}

// join begins to wait: an entry comes by the channel, which the caller passes to leave in any case.
func (f *freeRequests) join() chan *Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var place chan *Request
	if last := len(f.spare) - 1; last >= 0 {
		place, f.spare = f.spare[last], f.spare[:last]
	} else {
		place = make(chan *Request, 1)
	}
	f.queue = append(f.queue, place)
	f.Waiting.Add(1) // before the set is looked at: put looks here after that
	f.serveLocked()
	return place
}

// leave ends the wait. An entry that came and was not received goes back.
func (f *freeRequests) leave(place chan *Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.queue, place); i >= 0 {
		f.leaveLocked(i)
	}
	select {
	case s := <-place:
		f.Set.Add(s.Index)
		f.serveLocked()
	default:
	}
	f.spare = append(f.spare, place)
}

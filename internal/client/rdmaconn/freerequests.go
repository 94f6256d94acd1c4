package rdmaconn

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// freeRequests are the entries that are granted and not in use. While no call waits, one atomic
// operation takes or gives back up to 64 entries. Waiting calls come before others, in the order in
// which they came. Safe for concurrent use.
type freeRequests struct {
	requests []Request
	set      requestSet
	waiting  atomic.Int32 // the length of queue; changes under mu

	mu    sync.Mutex // guards the following fields
	queue []chan *Request
	spare []chan *Request // for the next waiting calls
}

func (f *freeRequests) init(requests []Request) {
	f.requests, f.set = requests, newRequestSet(len(requests))
}

// size is the number of free entries.
func (f *freeRequests) size() (n int) {
	for i := range f.set {
		n += bits.OnesCount64(f.set[i].Load())
	}
	return n
}

// put adds an entry.
func (f *freeRequests) put(s *Request) { f.putBack(someRequests{s.index / 64, 1 << (s.index % 64)}) }

// putBack adds entries.
func (f *freeRequests) putBack(some someRequests) {
	if some.members == 0 {
		return
	}
	f.set[some.word].Or(some.members)
	if f.waiting.Load() > 0 {
		f.mu.Lock()
		f.serveLocked()
		f.mu.Unlock()
	}
}

// take takes an entry. It returns nil if there is none or other calls wait.
func (f *freeRequests) take() *Request {
	some := f.takeSome(1)
	return f.next(&some)
}

// takeSome takes up to n entries that are next to each other. It takes none if other calls wait.
func (f *freeRequests) takeSome(n int) someRequests {
	if f.waiting.Load() > 0 {
		return someRequests{}
	}
	return f.set.takeSome(n)
}

// next returns one of the entries that were taken, or nil.
func (f *freeRequests) next(some *someRequests) *Request {
	if some.members == 0 {
		return nil
	}
	i := 64*some.word + bits.TrailingZeros64(some.members)
	some.members &= some.members - 1
	return &f.requests[i]
}

// serveLocked gives the free entries to the waiting calls.
func (f *freeRequests) serveLocked() {
	for len(f.queue) > 0 {
		some := f.set.takeSome(1)
		s := f.next(&some)
		if s == nil {
			return
		}
		f.queue[0] <- s
		f.leaveLocked(0)
	}
}

// leaveLocked removes place i of the queue.
func (f *freeRequests) leaveLocked(i int) {
	f.queue = slices.Delete(f.queue, i, i+1)
	f.waiting.Add(-1)
}

// join begins to wait. The entry comes by the channel. leave must follow.
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
	f.waiting.Add(1) // before serveLocked looks at the set: putBack looks here after it has added
	f.serveLocked()
	return place
}

// leave ends the wait. An entry that was not received goes back.
func (f *freeRequests) leave(place chan *Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.queue, place); i >= 0 {
		f.leaveLocked(i)
	}
	select {
	case s := <-place:
		f.set.add(s.index)
		f.serveLocked()
	default:
	}
	f.spare = append(f.spare, place)
}

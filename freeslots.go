package lwio

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// freeSlots are the slots that are granted and not in use. To take some that are there,
// and to give some back while nobody waits, is one atomic operation for up to 64. Who
// waits comes before who does not, in the order in which they came. Safe for concurrent
// use.
type freeSlots struct {
	slots   []slot
	set     slotSet
	waiting atomic.Int32 // the length of queue; changes under mu

	mu    sync.Mutex // guards what follows
	queue []chan *slot
	spare []chan *slot // of those that have waited
}

func (f *freeSlots) init(slots []slot) { f.slots, f.set = slots, newSlotSet(len(slots)) }

// size is how many there are.
func (f *freeSlots) size() (n int) {
	for i := range f.set {
		n += bits.OnesCount64(f.set[i].Load())
	}
	return n
}

// put adds one.
func (f *freeSlots) put(s *slot) { f.putBack(someSlots{s.index / 64, 1 << (s.index % 64)}) }

// putBack adds some.
func (f *freeSlots) putBack(some someSlots) {
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

// take takes one; nil says that there is none, or that others wait.
func (f *freeSlots) take() *slot {
	some := f.takeSome(1)
	return f.next(&some)
}

// takeSome takes up to n, of those that are next to each other. There are none if others
// wait.
func (f *freeSlots) takeSome(n int) someSlots {
	if f.waiting.Load() > 0 {
		return someSlots{}
	}
	return f.set.takeSome(n)
}

// next takes one of some that were taken, or returns nil.
func (f *freeSlots) next(some *someSlots) *slot {
	if some.members == 0 {
		return nil
	}
	i := 64*some.word + bits.TrailingZeros64(some.members)
	some.members &= some.members - 1
	return &f.slots[i]
}

// serveLocked gives what there is to those who wait.
func (f *freeSlots) serveLocked() {
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

// leaveLocked takes the one at place i out of the queue.
func (f *freeSlots) leaveLocked(i int) {
	f.queue = slices.Delete(f.queue, i, i+1)
	f.waiting.Add(-1)
}

// join begins to wait: one comes by what it returns, which is for leave in any case.
func (f *freeSlots) join() chan *slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	var place chan *slot
	if last := len(f.spare) - 1; last >= 0 {
		place, f.spare = f.spare[last], f.spare[:last]
	} else {
		place = make(chan *slot, 1)
	}
	f.queue = append(f.queue, place)
	f.waiting.Add(1) // before the set is looked at: who puts one in looks here after that
	f.serveLocked()
	return place
}

// leave ends the wait. A slot that came and was not received goes back.
func (f *freeSlots) leave(place chan *slot) {
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

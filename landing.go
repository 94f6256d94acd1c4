package lwio

import (
	"time"

	"lwio/internal/wire"
)

// landing is what a look at the answers has found for operations of batches: they are
// counted together and handed over together. It belongs to who looks; the zero value is
// empty. Its slots are free, but nobody can have them yet.
type landing struct {
	at int64 // the time, or 0 if nobody has looked yet

	newest, oldest *operation // of one queue, linked as arrivals.answered is
	n              int
	free, unpolled someSlots

	io, writes int
	took       int64 // delay of the last same
	polled     bool  // and how their answers came
	same       int
}

// now is the time of the look.
func (l *landing) now(c *conn) int64 {
	if l.at == 0 {
		l.at = c.clock()
	}
	return l.at
}

// observe counts an I/O request that was answered.
func (l *landing) observe(c *conn, s *slot) {
	l.io++
	if s.kind == kindWrite {
		l.writes++
	}
	took, polled := l.now(c)-s.began, s.isPolled()
	if took != l.took || polled != l.polled {
		l.flushDelays(c)
		l.took, l.polled = took, polled
	}
	l.same++
	if s.pace != nil {
		s.pace.took(polled, took)
	}
	if polled && !l.unpolled.add(s.index) {
		c.polled.removeSome(l.unpolled)
		l.unpolled = someSlots{}
		l.unpolled.add(s.index)
	}
}

func (l *landing) flushDelays(c *conn) {
	switch {
	case l.same == 0:
	case l.polled:
		c.counts.polled.ObserveMany(time.Duration(l.took), l.same)
	default:
		c.counts.interrupt.ObserveMany(time.Duration(l.took), l.same)
	}
	l.same = 0
}

// flushCounts counts what was observed.
func (l *landing) flushCounts(c *conn) {
	if l.io == 0 {
		return
	}
	l.flushDelays(c)
	c.seen.Add(int64(l.io))
	if l.writes > 0 {
		c.unanswered.Add(-int64(l.writes))
	}
	c.polled.removeSome(l.unpolled)
	l.unpolled = someSlots{}
	l.io, l.writes = 0, 0
}

// land takes in the operation of slot s, which is settling, with its answer, and frees the
// slot.
func (l *landing) land(c *conn, s *slot, ios wire.IOStatusBlock) {
	o := s.op
	if l.newest != nil && l.newest.q != o.q {
		l.handOver(c)
	}
	o.deliver(s, ios)
	o.answer(ios, nil)
	if o.next = l.newest; l.newest == nil {
		l.oldest = o
	}
	l.newest = o
	l.n++
	s.drop()
	if c.credits.work.Load() {
		l.handOver(c) // before the slot can be anybody's
		c.release(s)
		return
	}
	s.renew()
	if !l.free.add(s.index) {
		l.handOver(c) // this operation, too
		var one someSlots
		one.add(s.index)
		c.unused(one)
	}
}

// handOver counts what was observed, hands the operations to their batch, and frees their
// slots, in this order: who finds an operation in a slot must not mistake for its request
// the next one there.
func (l *landing) handOver(c *conn) {
	l.flushCounts(c)
	if l.newest == nil {
		return
	}
	q, n := l.newest.q, l.n
	q.returns(l.newest, l.oldest)
	c.unused(l.free)
	l.newest, l.oldest, l.n, l.free = nil, nil, 0, someSlots{}
	if q.call {
		c.returning.Add(1)
	}
	q.arrived(n)
}

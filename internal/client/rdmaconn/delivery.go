package rdmaconn

import (
	"time"

	"lwio/internal/wire"
)

// Delivery are the answers that a look has found for operations: they are
// counted together and handed over together. It belongs to the goroutine that looks; the zero value is
// empty. Its entries are free, but cannot be taken yet.
type Delivery struct {
	at int64 // the time, or 0 if it was not read yet

	newest, oldest *Ticket // of one queue, linked as Arrivals.Answered
	n              int
	free, unpolled SomeRequests

	io, writes int
	took       int64 // delay of the last same
	polled     bool  // and how their answers came
	same       int
}

// now is the time of the look.
func (l *Delivery) now(c *Conn) int64 {
	if l.at == 0 {
		l.at = c.Clock()
	}
	return l.at
}

// observe counts an I/O request that was answered.
func (l *Delivery) observe(c *Conn, s *Request) {
	l.io++
	if s.Kind == KindWrite {
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
	if polled && !l.unpolled.add(s.Index) {
		c.Status.Polled.removeSome(l.unpolled)
		l.unpolled = SomeRequests{}
		l.unpolled.add(s.Index)
	}
}

func (l *Delivery) flushDelays(c *Conn) {
	switch {
	case l.same == 0:
	case l.polled:
		c.Counts.Polled.ObserveMany(time.Duration(l.took), l.same)
	default:
		c.Counts.Interrupt.ObserveMany(time.Duration(l.took), l.same)
	}
	l.same = 0
}

// flushCounts adds up the observations.
func (l *Delivery) flushCounts(c *Conn) {
	if l.io == 0 {
		return
	}
	l.flushDelays(c)
	c.Seen.Add(int64(l.io))
	if l.writes > 0 {
		c.Unanswered.Add(-int64(l.writes))
	}
	c.Status.Polled.removeSome(l.unpolled)
	l.unpolled = SomeRequests{}
	l.io, l.writes = 0, 0
}

// place takes in the operation of entry s, which is settling, with its answer, and frees the
// entry.
func (l *Delivery) place(c *Conn, s *Request, ios wire.IOStatusBlock) {
	t := s.Op
	if l.newest != nil && l.newest.To != t.To {
		l.HandOver(c)
	}
	t.Owner.Deliver(s, ios)
	t.Owner.Answer(ios, nil)
	if t.Next = l.newest; l.newest == nil {
		l.oldest = t
	}
	l.newest = t
	l.n++
	s.drop()
	if c.Credits.work.Load() {
		l.HandOver(c) // before the entry can be any call's
		c.Release(s)
		return
	}
	s.renew()
	if !l.free.add(s.Index) {
		l.HandOver(c) // this operation, too
		var one SomeRequests
		one.add(s.Index)
		c.Unused(one)
	}
}

// HandOver adds up the observations, hands the operations to their batch, and frees their
// entries, in this order: a goroutine that finds an operation in an entry must not mistake for its request
// the next one there.
func (l *Delivery) HandOver(c *Conn) {
	l.flushCounts(c)
	if l.newest == nil {
		return
	}
	to, n := l.newest.To, l.n
	to.Returns(l.newest, l.oldest)
	c.Unused(l.free)
	l.newest, l.oldest, l.n, l.free = nil, nil, 0, SomeRequests{}
	if to.Call && c.Queue.gathers {
		c.Queue.returning.Add(1)
	}
	to.Arrived(n)
}

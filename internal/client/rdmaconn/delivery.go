package rdmaconn

import (
	"time"

	"lwio/internal/wire"
)

// Delivery collects the answers to operations that one look finds. It counts them together,
// and hands the operations to their queues together. The goroutine that looks owns it. The
// zero value is empty. The entries of its operations are free, but no call can take them yet.
type Delivery struct {
	at int64 // time of the look, or 0 if the clock was not read yet

	groups [groupsAtOnce]group
	used   int // groups in use

	free, unpolled SomeRequests

	io, writes int
	took       int64 // delay of the last same requests
	polled     bool  // their answers were status blocks
	same       int
}

// groupsAtOnce is the number of queues to which one delivery hands operations.
const groupsAtOnce = 4

// group has the operations of one queue, linked as Arrivals.Answered.
type group struct {
	to             *Arrivals
	newest, oldest *Ticket
	n              int
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

// add adds an operation to the group of its queue. It hands over the groups that are there if
// no other is left.
func (l *Delivery) add(c *Conn, t *Ticket) {
	if l.used == 0 || l.groups[l.used-1].to != t.To {
		if l.used == len(l.groups) {
			l.HandOver(c)
		}
		l.groups[l.used] = group{to: t.To, oldest: t}
		l.used++
	}
	g := &l.groups[l.used-1]
	t.Next, g.newest = g.newest, t
	g.n++
}

// place gives the answer to the operation of entry s, which is settling, and frees the entry.
func (l *Delivery) place(c *Conn, s *Request, ios wire.IOStatusBlock) {
	t := s.Op
	t.Owner.Deliver(s, ios)
	t.Owner.Answer(ios, nil)
	l.add(c, t)
	s.drop()
	if c.Credits.work.Load() {
		l.HandOver(c) // before another call can take the entry
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

// HandOver counts the answers, hands the operations to their queues, frees the entries, and
// wakes the queues, in this order. A goroutine that finds its operation in an entry must not
// take the next request of the entry for its own.
func (l *Delivery) HandOver(c *Conn) {
	l.flushCounts(c)
	if l.used == 0 {
		return
	}
	groups := l.groups[:l.used]
	for i := range groups {
		groups[i].to.Returns(groups[i].newest, groups[i].oldest)
	}
	c.Unused(l.free)
	l.used, l.free = 0, SomeRequests{}
	for i := range groups {
		to, n := groups[i].to, groups[i].n
		groups[i] = group{}
		if to.Call && c.Queue.gathers {
			c.Queue.returning.Add(1)
		}
		to.Arrived(n)
	}
}

package rdmaconn

import (
	"time"

	"lwio/internal/wire"
)

// delivery collects the answers that one look finds. They are counted together and handed over
// together. The entries of its requests are free, but cannot be taken yet. The goroutine that
// looks owns it.
type delivery struct {
	r  *receiver
	at int64 // time of the look, or 0 if the clock was not read yet

	groups [groupsAtOnce]group
	used   int // groups in use

	free     someRequests
	unpolled someRequests // requests that are not polled any more

	io, writes int   // requests not counted yet
	took       int64 // delay of the last same requests
	polled     bool  // their answers were status blocks
	same       int
}

// groupsAtOnce is the number of Arrivals to which one delivery hands tickets.
const groupsAtOnce = 4

// group has tickets of one Arrivals, linked as there.
type group struct {
	to             *Arrivals
	newest, oldest *Ticket
	n              int
}

// now is the time of the look.
func (d *delivery) now() int64 {
	if d.at == 0 {
		d.at = d.r.count.now()
	}
	return d.at
}

// observe counts an I/O request that was answered.
func (d *delivery) observe(s *Request) {
	d.io++
	if s.kind.changes() {
		d.writes++
	}
	took, polled := d.now()-s.began, s.load().polled()
	if s.kind.transfers() {
		if took != d.took || polled != d.polled {
			d.flushDelays()
			d.took, d.polled = took, polled
		}
		d.same++
	}
	if s.pace != nil {
		s.pace.took(polled, took)
	}
	if polled && !d.unpolled.add(s.index) {
		d.r.status.polled.removeSome(d.unpolled)
		d.unpolled = someRequests{}
		d.unpolled.add(s.index)
	}
}

func (d *delivery) flushDelays() {
	switch {
	case d.same == 0:
	case d.polled:
		d.r.counts.Polled.ObserveMany(time.Duration(d.took), d.same)
	default:
		d.r.counts.Interrupt.ObserveMany(time.Duration(d.took), d.same)
	}
	d.same = 0
}

// flushCounts adds the observations to the counters.
func (d *delivery) flushCounts() {
	if d.io == 0 {
		return
	}
	d.flushDelays()
	d.r.count.seen.Add(int64(d.io))
	if d.writes > 0 {
		d.r.count.unanswered.Add(-int64(d.writes))
	}
	d.r.status.polled.removeSome(d.unpolled)
	d.unpolled = someRequests{}
	d.io, d.writes = 0, 0
}

// add adds a ticket to the group of its Arrivals. It hands over the groups that are there if none
// is left.
func (d *delivery) add(t *Ticket) {
	if d.used == 0 || d.groups[d.used-1].to != t.To {
		if d.used == len(d.groups) {
			d.handOver()
		}
		d.groups[d.used] = group{to: t.To, oldest: t}
		d.used++
	}
	g := &d.groups[d.used-1]
	t.next, g.newest = g.newest, t
	g.n++
}

// place gives the answer to the operation of s, which is settling, and frees the request.
func (d *delivery) place(s *Request, ios wire.IOStatusBlock) {
	t := s.ticket
	t.Owner.Deliver(s.bounce, ios)
	t.Owner.Answer(ios, nil)
	d.add(t)
	if d.r.credits.work.Load() {
		s.drop()
		d.handOver() // before the entry can be another request's
		d.r.credits.release(s)
		return
	}
	s.free()
	if !d.free.add(s.index) {
		d.handOver() // this operation too
		var one someRequests
		one.add(s.index)
		d.r.credits.putBack(one)
	}
}

// handOver counts the answers, hands the tickets to their Arrivals, frees the entries, and wakes
// the goroutines, in this order. A goroutine that finds its ticket in an entry must not take the
// next request of the entry for its own.
func (d *delivery) handOver() {
	d.flushCounts()
	if d.used == 0 {
		return
	}
	groups := d.groups[:d.used]
	for i := range groups {
		groups[i].to.push(groups[i].newest, groups[i].oldest)
	}
	d.r.credits.putBack(d.free)
	d.used, d.free = 0, someRequests{}
	for i := range groups {
		to, n := groups[i].to, groups[i].n
		groups[i] = group{}
		if to.Call && !d.r.send.direct {
			d.r.send.returning.Add(1)
		}
		to.arrived(n)
	}
}

package lwio

import (
	"context"
	"runtime"
	"slices"

	"lwio/internal/wire"
)

// bury ends the legs whose connections are down, what was in flight there is queued again.
func (b *Batch) bury(ctx context.Context) error {
	b.jolted.Store(false)
	for i, l := range b.legs {
		if l == nil || !l.conn.isDown() {
			continue
		}
		b.lose(l)
		if err := l.conn.tornDown(ctx); err != nil {
			return err // nothing goes elsewhere before
		}
		b.legs[i] = nil
	}
	return nil
}

// lose takes back what was in flight on a connection that is gone. It is queued before
// everything else, to be sent on the connection that takes the place of that one: writes
// under their old numbers, by which the server does them once.
//
// Source: [OP-112]
func (b *Batch) lose(l *leg) {
	cn := l.conn
	cn.life.RLock() // the teardown is not at the slots meanwhile
	defer cn.life.RUnlock()
	l.starve(0)
	var again []*op
	for _, o := range b.live() {
		if o.s == nil || o.leg != l {
			continue
		}
		if _, taken := o.recall(slotDead); !taken {
			continue
		}
		if o.write {
			o.owed = &owedOp{rail: cn.rail, lineage: cn.lineage, number: o.s.number, n: o.n, cause: cn.err}
		}
		b.returned(o)
		switch o.losses++; {
		case o.losses <= maxLosses:
			again = append(again, o)
			if !o.write {
				b.c.readsAgain.Add(1)
			}
		case o.write:
			b.finish(o, o.owed.uncertain(nil))
		default:
			b.finish(o, cn.err)
		}
	}
	b.queue = slices.Insert(b.queue, b.queued, again...)
	for b.reap(); l.sent > 0; b.reap() {
		runtime.Gosched() // who settled the others is about to hand them over
	}
	// Nothing is in flight there now. What goes on is registered anew, also what had a
	// part answered before, and waits to send the next.
	for _, o := range b.live() {
		if o.on == cn {
			o.takeBack()
		}
	}
}

// takeBack ends the registration of the memory of an operation that is not in flight.
func (o *op) takeBack() {
	if o.mr != nil {
		o.mr.Close()
	}
	o.mr, o.to, o.on = nil, nil, nil
}

// recall takes the slot away from an operation that is in flight; false says that
// its answer is there. What becomes of the slot is next; round is that of its message.
func (o *op) recall(next slotState) (round uint64, taken bool) {
	for s := o.s; ; runtime.Gosched() {
		w := s.word.Load()
		if o.cameBack() {
			return 0, false
		}
		switch slotState(w & stateMask) {
		case slotDead:
			return 0, true
		case slotPending:
			if !s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
				continue
			}
			s.op, round = nil, s.round
			if s.lent != nil && next == slotAbandoned {
				s.lent.doubted(1)
			}
			s.set(next)
			return round, true
		}
	}
}

// cameBack reports whether o, which was in flight, is among those that came back, or
// about to be: its slot is not its any more.
func (o *op) cameBack() bool { return o.late.Load() || o.s.generation() != o.life }

// leftIO is I/O that nobody waits for any more.
type leftIO struct {
	conn *conn
	fid  uint16
}

// abandon takes everything back that is queued or in flight.
func (b *Batch) abandon() {
	b.all(func(l *leg) {
		l.conn.life.RLock()
		l.starve(0)
	})
	var wishes []leftIO
	var lost []*rail // writes, with the connection
	for _, o := range b.live() {
		if o.s != nil {
			if round, taken := o.recall(slotAbandoned); taken {
				cn := o.leg.conn
				cn.awaitPost(round)
				if o.write && cn.isDown() {
					lost = append(lost, cn.rail)
				}
				b.returned(o)
				if w := (leftIO{cn, o.fid}); !slices.Contains(wishes, w) {
					wishes = append(wishes, w)
				}
			}
		}
		if o.mr != nil {
			o.mr.Close()
		}
		if o.epoch != nil {
			o.epoch.End()
		}
		if o.owed != nil {
			o.owed.rail.orphan()
		}
		o.mr, o.epoch = nil, nil
	}
	for ; b.sent > 0; runtime.Gosched() { // as in lose
		for o := b.answered.Swap(nil); o != nil; o = o.next {
			b.returned(o)
		}
	}
	for _, r := range lost {
		r.orphan()
	}
	for _, w := range wishes {
		w.conn.credits.cancel(w.conn, w.fid, false)
	}
	b.all(func(l *leg) {
		l.conn.life.RUnlock()
		l.conn.mourners.remove(b)
	})
	b.idle, b.queue, b.queued, b.parts, b.out, b.offered = nil, nil, 0, nil, nil, 0
}

// expire ends the wait for the request of a slot that is settling, and whose time is
// up. Called by the watchdog.
func (c *conn) expire(s *slot) {
	o := s.op
	if o == nil {
		s.set(slotExpired)
		c.wake(&s.waiter)
		return
	}
	s.op = nil
	if s.lent != nil {
		s.lent.doubted(1)
	}
	fid := s.fid
	o.answer(wire.IOStatusBlock{}, errTimeout)
	o.late.Store(true)
	s.set(slotAbandoned) // from here on it may get another generation, which says that o came back
	c.credits.cancel(c, fid, false)
	b := o.b
	b.returns(o, o)
	b.arrived(1)
}

package lwio

import (
	"runtime"
	"slices"
	"sync/atomic"

	"lwio/internal/wire"
)

// lose takes back what was in flight on a connection that is gone. It is queued before
// everything else, to be sent on the connection that takes the place of that one: writes
// under their old numbers, by which the server does them once.
//
// Source: [OP-112]
func (b *Batch) lose() {
	b.conn.life.RLock() // the teardown is not at the slots meanwhile
	defer b.conn.life.RUnlock()
	var again []*op
	for i := range b.ops {
		o := &b.ops[i]
		if o.s == nil {
			continue
		}
		if _, taken := o.recall(slotDead); !taken {
			continue
		}
		if o.write {
			o.owed = &owedOp{rail: b.conn.rail, lineage: b.conn.lineage, number: o.s.number, n: o.n, cause: b.conn.err}
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
			b.finish(o, b.conn.err)
		}
	}
	b.queue = slices.Insert(b.queue, b.queued, again...)
	b.reap()
	// Nothing is in flight now. What goes on is registered anew, also what had a part
	// answered before, and waits to send the next.
	for i := range b.ops {
		b.ops[i].takeBack()
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
		switch w := s.word.Load(); slotState(w & stateMask) {
		case slotDead:
			return 0, !o.cameBack()
		case slotPending:
			if o.cameBack() {
				return 0, false
			}
			if !s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
				continue
			}
			s.op, round = nil, s.round
			if s.lent != nil && next == slotAbandoned {
				s.lent.doubted(1)
			}
			s.set(next)
			return round, true
		default:
			if o.cameBack() {
				return 0, false
			}
		}
	}
}

func (o *op) cameBack() bool { return atomic.LoadUint32(&o.back) != 0 }

// abandon takes everything back that is queued or in flight.
func (b *Batch) abandon() {
	if b.conn != nil {
		b.conn.life.RLock()
		defer b.conn.life.RUnlock()
	}
	b.starve(0)
	var fids []uint16
	lost := false // writes, with the connection
	for i := range b.ops {
		o := &b.ops[i]
		if o.s != nil {
			if round, taken := o.recall(slotAbandoned); taken {
				b.conn.awaitPost(round)
				lost = lost || o.write && b.conn.isDown()
				b.returned(o)
				if !slices.Contains(fids, o.fid) {
					fids = append(fids, o.fid)
				}
			}
		}
		if o.mr != nil {
			o.mr.Close()
		}
		if o.epoch != nil {
			o.epoch.end()
		}
		if o.owed != nil {
			o.owed.rail.orphan()
		}
		o.mr, o.epoch = nil, nil
	}
	for o := b.answered.Swap(nil); o != nil; o = o.next {
		b.returned(o)
	}
	if lost {
		b.conn.rail.orphan()
	}
	for _, fid := range fids {
		b.conn.credits.cancel(b.conn, fid, false)
	}
	b.idle, b.queue, b.queued, b.out, b.offered = nil, nil, 0, nil, 0
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
	s.set(slotAbandoned)
	c.credits.cancel(c, fid, false)
	o.came(c, wire.IOStatusBlock{}, errTimeout)
}

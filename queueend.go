package lwio

import (
	"context"
	"runtime"
	"slices"

	"lwio/internal/wire"
)

// maxLosses is over how many connections in a row an operation goes on without getting
// anywhere: it may be the cause of their end.
const maxLosses = 8

// bury ends the flights of connections that are down; what was in flight there is queued
// again.
func (q *queue) bury(ctx context.Context) error {
	if q.failed.Load() {
		q.failed.Store(false)
	}
	for i, l := range q.flights {
		if l == nil || !l.conn.isDown() {
			continue
		}
		if l.sent == 0 && !q.registeredOn(l.conn) {
			q.flights[i] = nil
			continue
		}
		q.lose(l)
		if err := l.conn.tornDown(ctx); err != nil {
			return err // nothing goes elsewhere before
		}
		q.flights[i] = nil
	}
	return nil
}

// registeredOn reports whether memory of an operation is registered on a connection.
func (q *queue) registeredOn(cn *conn) bool {
	for _, x := range q.parts {
		if x.on == cn {
			return true
		}
	}
	for i := range q.ops {
		if q.ops[i].on == cn {
			return true
		}
	}
	return false
}

// lose takes back what was in flight on a connection that is down. It is queued before
// everything else, to be sent on the connection that takes the place of that one: writes
// under their old numbers, by which the server does them once.
//
// Source: [OP-112]
func (q *queue) lose(l *flight) {
	cn := l.conn
	cn.life.RLock() // the teardown is not at the slots meanwhile
	defer cn.life.RUnlock()
	l.starve(0)
	var again []*operation
	for _, o := range q.live() {
		if o.s == nil || o.flight != l {
			continue
		}
		if _, taken := o.recall(slotDead); !taken {
			continue
		}
		if o.write {
			o.unacked = &unacknowledged{rail: cn.rail, lineage: cn.lineage, number: o.s.number, n: o.n, cause: cn.err}
			o.replayFirst(cn.rail)
		}
		q.returned(o)
		if err := o.afterLoss(cn); err != nil {
			q.finish(o, err)
			continue
		}
		again = append(again, o)
	}
	q.pending = slices.Insert(q.pending, q.head, again...)
	for q.reap(); l.sent > 0; q.reap() {
		runtime.Gosched() // the goroutine that settled the others is about to hand them over
	}
	// Nothing is in flight there now. What goes on is registered anew, also what had a
	// part answered before, and waits to send the next.
	for _, o := range q.live() {
		if o.on == cn {
			o.takeBack()
		}
	}
}

// afterLoss decides what becomes of an operation whose connection broke: it goes on
// elsewhere, or ends with the error.
func (o *operation) afterLoss(cn *conn) error {
	c := o.q.c
	o.losses++
	gone := o.gone()
	switch {
	case o.write && gone != nil:
		return o.unacked.uncertain(gone)
	case gone != nil:
		return gone
	case o.write && o.losses > maxLosses:
		return o.unacked.uncertain(nil)
	case o.write:
		return nil
	case o.losses > maxLosses && c.cfg.RequireRDMA, c.cfg.RequireRDMA && c.cfg.Reconnect < 0 && len(c.rails) == 1:
		return cn.err
	}
	o.overSMB = o.losses > maxLosses
	c.readsAgain.Add(1)
	return nil
}

// recall takes the slot away from an operation that is in flight; false says that
// its answer is there. What becomes of the slot is next; round is that of its message.
func (o *operation) recall(next slotState) (round uint64, taken bool) {
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
			if next == slotAbandoned {
				o.abandon(s)
			}
			s.set(next)
			return round, true
		}
	}
}

// abandon leaves the request of o, which is settling, to the slot: the Buffer is in use, and
// a write in its epoch, until the server has answered.
func (o *operation) abandon(s *slot) {
	if s.lent != nil {
		s.lent.doubted(1)
	}
	s.epoch, o.epoch = o.epoch, nil
	if s.own {
		s.tick.Store(o.on.ticks.Load())
	}
}

// cameBack reports whether o, which was in flight, is among those that came back, or
// about to be: its slot is not its any more.
func (o *operation) cameBack() bool { return o.late.Load() || o.s.generation() != o.life }

// leftIO is I/O that no call waits for any more.
type leftIO struct {
	conn *conn
	fid  uint16
}

// giveUp ends everything that is queued or in flight with cause, and takes the memory back.
func (q *queue) giveUp(cause error) {
	q.stopSMB()
	var used []*conn
	q.all(func(l *flight) {
		l.starve(0)
		if l.sent > 0 { // else the teardown may go on
			l.conn.life.RLock()
			used = append(used, l.conn)
		}
	})
	var wishes []leftIO
	var given []*operation
	for _, o := range q.live() {
		if o.s == nil {
			continue
		}
		if round, taken := o.recall(slotAbandoned); taken {
			cn := o.flight.conn
			cn.awaitPost(round)
			q.returned(o)
			given = append(given, o)
			if w := (leftIO{cn, o.fid}); !slices.Contains(wishes, w) {
				wishes = append(wishes, w)
			}
		}
	}
	for q.reap(); q.sent > 0; q.reap() { // as in lose
		runtime.Gosched()
	}
	q.pending, q.head = q.pending[:0], 0
	q.endAll(given, cause)
	for _, w := range wishes {
		w.conn.credits.cancel(w.conn, w.fid, false)
	}
	for _, c := range used {
		c.life.RUnlock()
	}
}

// endAll ends all operations with cause. The outcome of writes that were given up is unknown.
func (q *queue) endAll(given []*operation, cause error) {
	end := func(o *operation) {
		err := cause
		switch {
		case o.unacked != nil:
			err = o.unacked.uncertain(cause)
		case o.write && slices.Contains(given, o):
			err = &uncertainError{cause}
			if o.flight.conn.isDown() {
				o.flight.conn.rail.orphan()
			}
		}
		q.finish(o, err)
	}
	for i := range q.ops {
		if o := &q.ops[i]; o.busy && o.cut > 0 && o.cut < o.size {
			if q.wentWrong(o, o.cut, cause); o.parts == 0 {
				q.endWhole(o)
			}
		}
	}
	for _, x := range slices.Clone(q.parts) {
		end(x)
	}
	for i := range q.ops {
		if o := &q.ops[i]; o.busy {
			end(o)
		}
	}
}

// expired ends the wait for the request of slot s, which is settling, because its time is up.
// The watchdog calls it.
func (o *operation) expired(c *conn, s *slot) {
	s.op = nil
	fid := s.fid
	o.abandon(s)
	o.answer(wire.IOStatusBlock{}, errTimeout)
	o.late.Store(true)
	s.set(slotAbandoned) // from here on it may get another generation, which says that o came back
	c.credits.cancel(c, fid, false)
	o.q.returns(o, o)
	o.q.arrived(1)
}

package fileio

import (
	"context"
	"runtime"
	"slices"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// maxLosses is the number of connections that an operation may lose in a row without an answer. An
// operation that loses more may be the cause.
const maxLosses = 8

// handleLostConnections ends the flights of connections that are down, and queues their requests
// again.
func (q *queue) handleLostConnections(ctx context.Context) error {
	q.SeeFailure()
	for i, l := range q.flights {
		if l == nil || !l.Conn.IsDown() {
			continue
		}
		if l.sent == 0 && !q.registeredOn(l.Conn) {
			q.flights[i] = nil
			continue
		}
		q.takeBackInFlight(l)
		if err := l.Conn.TornDown(ctx); err != nil {
			return err // nothing goes elsewhere before
		}
		q.flights[i] = nil
	}
	return nil
}

// registeredOn reports whether memory of an operation is registered on a connection.
func (q *queue) registeredOn(cn *rdmaconn.Conn) bool {
	for _, x := range q.parts {
		if x.on == cn {
			return true
		}
	}
	for i := range q.ops {
		if o := &q.ops[i]; o.on == cn || o.run.isOn(cn) {
			return true
		}
	}
	return false
}

// takeBackInFlight takes back the requests in flight on a connection that is down. It queues them
// before all other operations, for the next connection of the path. A write is sent again under its
// old number, so the server does it once.
//
// Source: [OP-112]
func (q *queue) takeBackInFlight(l *flight) {
	cn := l.Conn
	cn.Hold()
	defer cn.Unpin()
	l.setWaitingForCredit(0)
	var again []*operation
	for _, o := range q.live() {
		if !o.InFlight() || o.flight != l {
			continue
		}
		number, ok := cn.TakeBack(&o.Ticket)
		if !ok {
			continue
		}
		if o.write {
			o.unacked = &unacknowledged{path: paths.PathOf(cn), lineage: cn.Lineage, number: number, n: o.n, cause: cn.Err()}
			o.replayFirst(paths.PathOf(cn))
		}
		q.returned(o)
		if err := o.afterLoss(cn); err != nil {
			q.finish(o, err)
			continue
		}
		again = append(again, o)
	}
	q.pending.pushFront(again...)
	for q.reap(); l.sent > 0; q.reap() {
		runtime.Gosched() // the goroutine that settled the others is about to hand them over
	}
	// Nothing is in flight there now. Operations that go on are registered anew, also those with a
	// request answered before that wait to send the next.
	for _, o := range q.live() {
		o.run.closeOn(cn)
		if o.on == cn {
			o.takeBack()
		}
	}
}

// afterLoss returns nil if an operation can be sent again after the loss of its connection, else the
// error with which it ends.
func (o *operation) afterLoss(cn *rdmaconn.Conn) error {
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
	case o.losses > maxLosses && c.Cfg.RequireRDMA, c.Cfg.RequireRDMA && c.Cfg.ReconnectTimeout < 0 && len(c.Paths) == 1:
		return cn.Err()
	}
	o.overSMB = o.losses > maxLosses
	c.readsAgain.Add(1)
	return nil
}

// Abandon gives the epoch of a write to its request, which the server may still do.
func (o *operation) Abandon() *barrier.Epoch {
	e := o.epoch
	o.epoch = nil
	return e
}

// leftIO names a file on a connection that has given-up requests.
type leftIO struct {
	conn *rdmaconn.Conn
	fid  uint16
}

// giveUp ends all operations with cause, and takes their memory back.
func (q *queue) giveUp(cause error) {
	q.smb.stop()
	var used []*rdmaconn.Conn
	q.flights.all(func(l *flight) {
		l.setWaitingForCredit(0)
		if l.sent > 0 { // else the teardown may go on
			l.Conn.Hold()
			used = append(used, l.Conn)
		}
	})
	var wishes []leftIO
	var given []*operation
	for _, o := range q.live() {
		if o.InFlight() && o.flight.Conn.GiveUp(&o.Ticket) {
			cn := o.flight.Conn
			q.returned(o)
			given = append(given, o)
			if w := (leftIO{cn, o.fid}); !slices.Contains(wishes, w) {
				wishes = append(wishes, w)
			}
		}
	}
	for q.reap(); q.sent > 0; q.reap() { // as in takeBackInFlight
		runtime.Gosched()
	}
	q.pending.clear()
	q.smb.pending.clear()
	q.endAll(given, cause)
	for _, w := range wishes {
		w.conn.Cancel(w.fid)
	}
	for _, c := range used {
		c.Unpin()
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
			err = base.Uncertain(cause)
			if o.flight.Conn.IsDown() {
				paths.PathOf(o.flight.Conn).NoteUncertainWrite()
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

package fileio

import (
	"context"

	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// flight are the requests of a queue on one connection, and where its goroutine waits for
// it. A queue has one for each path that it uses. The goroutine sleeps at one of them; an
// answer that comes by another wakes it there.
type flight struct {
	rdmaconn.Place
	sent    int // operations in flight
	starved int // queued operations that conn has no credit for
}

// flightOn is the queue's part of a connection. Nothing of the queue is in flight any more on
// the one whose place that took.
func (q *queue) flightOn(cn *rdmaconn.Conn) *flight {
	at := &q.flights[paths.PathOf(cn).Index]
	if l := *at; l != nil && l.Conn == cn {
		return l
	}
	*at = &flight{Place: rdmaconn.NewPlace(cn)}
	return *at
}

// all calls do for every flight.
func (q *queue) all(do func(l *flight)) {
	for _, l := range q.flights {
		if l != nil {
			do(l)
		}
	}
}

// broken is a flight with something in flight on a connection that is down, or nil.
func (q *queue) broken() *flight {
	for _, l := range q.flights {
		if l != nil && l.sent > 0 && l.Conn.IsDown() {
			return l
		}
	}
	return nil
}

// starve notes how many operations wait for a credit of the connection. The header of the
// next request carries the number, so that the server can grant more.
//
// Source: [LWIO claim 22], [OP-97]
func (l *flight) starve(n int) {
	if n != l.starved {
		l.Conn.Wanting.Add(int64(n - l.starved))
		l.starved = n
	}
}

// landed counts n operations as not in flight; n is 0 if there is no flight.
func (l *flight) landed(n int) {
	if n == 0 {
		return
	}
	l.sent -= n
	if l.Conn != nil {
		l.Conn.Wanting.Add(-int64(n))
	}
}

func (l *flight) inFlight() int {
	if l == nil {
		return 0
	}
	return l.sent
}

// sleep waits until n operations have come back, or as many as make room for a good
// part of those that are queued.
func (q *queue) sleep(ctx context.Context, n int) {
	n = q.answersFor(n)
	if q.queued() {
		n = min(n, q.sent/2)
	}
	l := q.asleep
	if l == nil || l.sent == 0 || l.Conn == nil || l != q.flights[paths.PathOf(l.Conn).Index] {
		l = &q.smb.flight // where nothing is in flight over RDMA
		most := 0
		for _, x := range q.flights {
			if n := x.inFlight(); n > most {
				l, most = x, n
			}
		}
	}
	if q.asleep != l || q.At.Load() == nil {
		q.asleep = l
		q.At.Store(&l.Place) // before need, by which others know whether to wake
	}
	q.Need.Store(int64(min(max(n, 1), q.sent)))
	c := l.Conn
	if c == nil {
		q.sleepSMB(ctx)
		return
	}
	if c.Pin() != nil {
		return
	}
	defer c.Unpin()
	if q.Call && q.sent == 1 && q.busyPoll(l) {
		return
	}
	if l.sent < q.sent {
		defer q.delegate(l)()
	}
	heeded := !q.Call
	if heeded {
		q.heed(ctx, c)
	}
	until := int64(0)
	if !c.Status.Polled.Empty() {
		until = c.Clock() + c.Patience()
	}
	c.Await(ctx, &l.Waiter, &q.Arrivals, until, heeded)
}

// busyPoll looks for the answer of the one request in flight, if it is the only one of the
// connection, and takes it in if it came.
func (q *queue) busyPoll(l *flight) bool {
	o := &q.ops[0]
	if o.s == nil {
		return false // a part, or over SMB
	}
	ios, came := l.Conn.BusyPoll(o.s, &o.Ticket, o.life)
	if !came {
		return false
	}
	o.Deliver(o.s, ios)
	o.Answer(ios, nil)
	l.Conn.Release(o.s)
	q.landedOne(o)
	return true
}

// delegate leaves it to other goroutines to hand out the answers of all connections but the
// one where the goroutine is about to sleep, until the function that it returns is called.
func (q *queue) delegate(at *flight) (over func()) {
	var left []*rdmaconn.Conn
	for _, l := range q.flights {
		if l == nil || l == at || l.sent == 0 {
			continue
		}
		l.Conn.Life.Watchers.Add(l.Conn, q)
		if l.Conn.Enter() != nil {
			l.Conn.Life.Watchers.Remove(q)
			q.Failed.Store(true) // its failure may have come before the queue watched
			continue
		}
		l.Conn.Progress.Poller.Block()
		l.Conn.ArmForOthers()
		left = append(left, l.Conn)
	}
	return func() {
		for _, c := range left {
			c.Life.Watchers.Remove(q)
			c.Progress.Poller.Unblock()
			c.Leave()
		}
	}
}

// reap takes the operations that came back: each is over, or goes on with its next request.
func (q *queue) reap() {
	oldest, n := q.Take()
	at, landed := (*flight)(nil), 0
	for t := oldest; t != nil; {
		o := t.Owner.(*operation)
		t, o.Next = t.Next, nil
		if at != o.flight {
			at.landed(landed)
			at, landed = o.flight, 0
		}
		o.s = nil
		landed++
		q.goOn(o)
	}
	at.landed(landed)
	q.sent -= n
}

// goOn ends an operation that was answered, or queues it for its next request.
func (q *queue) goOn(o *operation) {
	if err := o.take(); err != nil || o.done == o.size {
		q.finish(o, err)
	} else {
		q.push(o)
	}
}

// landedOne takes in the answer to the request of o, which is not among those that came back.
func (q *queue) landedOne(o *operation) {
	q.returned(o)
	q.goOn(o)
}

// returned counts o as not in flight.
func (q *queue) returned(o *operation) {
	o.s = nil
	q.sent--
	o.flight.landed(1)
}

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
		l.Conn.AddPending(n - l.starved)
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
		l.Conn.AddPending(-n)
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
	l := q.sleepingPlace()
	q.SleepAt(&l.Place, min(max(n, 1), q.sent))
	c := l.Conn
	if c == nil {
		q.sleepSMB(ctx)
		return
	}
	if c.Pin() != nil {
		return
	}
	defer c.Unpin()
	if o := &q.ops[0]; q.Call && q.sent == 1 && c.BusyPoll(&o.Ticket) {
		q.returned(o)
		q.goOn(o)
		return
	}
	if l.sent < q.sent {
		defer q.delegate(l)()
	}
	heeded := !q.Call
	if heeded {
		q.heed(ctx, c)
	}
	c.Await(ctx, &l.Place, &q.Arrivals, heeded)
}

// sleepingPlace is the flight to wait at: the last one, if something is in flight there, else the
// one with the most in flight, which is that over SMB if nothing is over RDMA.
func (q *queue) sleepingPlace() *flight {
	if p := q.At(); p != nil && p.Conn != nil {
		if l := q.flights[paths.PathOf(p.Conn).Index]; l.inFlight() > 0 && p == &l.Place {
			return l
		}
	}
	l, most := &q.smb.flight, 0
	for _, x := range q.flights {
		if n := x.inFlight(); n > most {
			l, most = x, n
		}
	}
	return l
}

// delegate has other goroutines deliver the answers of all connections but the one where the
// goroutine is about to sleep, until the function that it returns is called.
func (q *queue) delegate(at *flight) (over func()) {
	var left []*rdmaconn.Conn
	for _, l := range q.flights {
		if l == nil || l == at || l.sent == 0 {
			continue
		}
		if l.Conn.DelegatePolling(&q.Arrivals) == nil {
			left = append(left, l.Conn)
		}
	}
	return func() {
		for _, c := range left {
			c.EndDelegation(&q.Arrivals)
		}
	}
}

// reap takes the operations that came back: each is over, or goes on with its next request.
func (q *queue) reap() {
	oldest, n := q.Take()
	at, landed := (*flight)(nil), 0
	for t := oldest; t != nil; {
		o := t.Owner.(*operation)
		t = t.Next()
		if at != o.flight {
			at.landed(landed)
			at, landed = o.flight, 0
		}
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

// returned counts o as not in flight.
func (q *queue) returned(o *operation) {
	q.sent--
	o.flight.landed(1)
}

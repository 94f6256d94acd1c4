package fileio

import (
	"context"

	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// flight counts the operations of a queue on one connection, and is a place where the goroutine of the
// queue can sleep. The goroutine sleeps at one flight; answers on other connections wake it there.
type flight struct {
	rdmaconn.Place
	sent             int // operations in flight
	waitingForCredit int // queued operations that conn has no credit for
}

// flightSet has the flight of each path, by the index of the path; nil for a path that was not used.
type flightSet []*flight

// on returns the flight on cn. It replaces the flight on an earlier connection of the path, which
// must be empty.
func (s flightSet) on(cn *rdmaconn.Conn) *flight {
	at := &s[paths.PathOf(cn).Index]
	if l := *at; l != nil && l.Conn == cn {
		return l
	}
	*at = &flight{Place: rdmaconn.NewPlace(cn)}
	return *at
}

// all calls do for every flight.
func (s flightSet) all(do func(l *flight)) {
	for _, l := range s {
		if l != nil {
			do(l)
		}
	}
}

// broken reports whether operations are in flight on a connection that is down.
func (s flightSet) broken() bool {
	for _, l := range s {
		if l != nil && l.sent > 0 && l.Conn.IsDown() {
			return true
		}
	}
	return false
}

// inFlight reports whether operations are in flight on any connection.
func (s flightSet) inFlight() bool {
	for _, l := range s {
		if l.inFlight() > 0 {
			return true
		}
	}
	return false
}

// clearWaitingForCredit notes that no operation waits for a credit.
func (s flightSet) clearWaitingForCredit() {
	for _, l := range s {
		if l != nil {
			l.setWaitingForCredit(0)
		}
	}
}

// busiest returns the flight with the most operations, or otherwise if all are empty.
func (s flightSet) busiest(otherwise *flight) *flight {
	l, most := otherwise, 0
	for _, x := range s {
		if n := x.inFlight(); n > most {
			l, most = x, n
		}
	}
	return l
}

// setWaitingForCredit notes how many operations wait for a credit of the connection. The header of
// the next request carries the number, so that the server can grant more.
//
// Source: [LWIO claim 22], [OP-97]
func (l *flight) setWaitingForCredit(n int) {
	if n != l.waitingForCredit {
		l.Conn.AddPending(n - l.waitingForCredit)
		l.waitingForCredit = n
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
		q.smb.sleep(ctx, &q.Arrivals)
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
	wakes := !q.Call
	if wakes {
		q.waker.set(ctx, c)
	}
	c.Await(ctx, &l.Place, &q.Arrivals, wakes)
}

// sleepingPlace returns the flight to wait at. It is the last one if operations are in flight there,
// else the busiest. With nothing in flight over RDMA it is the flight over SMB.
func (q *queue) sleepingPlace() *flight {
	if p := q.At(); p != nil && p.Conn != nil {
		if l := q.flights[paths.PathOf(p.Conn).Index]; l.inFlight() > 0 && p == &l.Place {
			return l
		}
	}
	return q.flights.busiest(&q.smb.flight)
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

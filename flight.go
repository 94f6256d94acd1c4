package lwio

import (
	"context"
)

// flight is what a queue has in flight on one connection, and where its goroutine waits for
// it. A queue has one for each path that it uses. The goroutine sleeps at one of them; an
// answer that comes by another wakes it there.
type flight struct {
	conn    *conn // nil for SMB
	waiter  waiter
	sent    int // operations in flight
	starved int // queued operations that conn has no credit for
}

// flightOn is the queue's part of a connection. Nothing of the queue is in flight any more on
// the one whose place that took.
func (q *queue) flightOn(cn *conn) *flight {
	at := &q.flights[cn.rail.index]
	if l := *at; l != nil && l.conn == cn {
		return l
	}
	*at = &flight{conn: cn, waiter: waiter{token: make(chan struct{}, 1)}}
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
		if l != nil && l.sent > 0 && l.conn.isDown() {
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
		l.conn.wanting.Add(int64(n - l.starved))
		l.starved = n
	}
}

// landed counts n operations as not in flight; n is 0 if there is no flight.
func (l *flight) landed(n int) {
	if n == 0 {
		return
	}
	l.sent -= n
	if l.conn != nil {
		l.conn.wanting.Add(-int64(n))
	}
}

func (l *flight) inFlight() int {
	if l == nil {
		return 0
	}
	return l.sent
}

// wake wakes the goroutine if it sleeps here.
func (l *flight) wake() {
	if l.conn != nil {
		l.conn.wake(&l.waiter)
		return
	}
	select {
	case l.waiter.token <- struct{}{}:
	default:
	}
}

// sleep waits until n operations have come back, or as many as make room for a good
// part of those that are queued.
func (q *queue) sleep(ctx context.Context, n int) {
	n = q.answersFor(n)
	if q.queued() {
		n = min(n, q.sent/2)
	}
	l := q.at.Load()
	if l == nil || l.sent == 0 || l.conn != nil && l != q.flights[l.conn.rail.index] {
		l = &q.smb.flight
		for _, x := range q.flights {
			if x.inFlight() > l.sent {
				l = x
			}
		}
	}
	if q.at.Load() != l {
		q.at.Store(l) // before need, by which others know whether to wake
	}
	q.need.Store(int64(min(max(n, 1), q.sent)))
	c := l.conn
	if c == nil {
		q.sleepSMB(ctx)
		return
	}
	if c.pin() != nil {
		return
	}
	defer c.unpin()
	if q.call && q.sent == 1 && q.busyPoll(l) {
		return
	}
	if l.sent < q.sent {
		defer q.delegate(l)()
	}
	heeded := !q.call
	if heeded {
		q.heed(ctx, c)
	}
	until := int64(0)
	if !c.polled.empty() {
		until = c.clock() + c.patience()
	}
	c.await(ctx, &l.waiter, &q.arrivals, until, heeded)
}

// busyPoll looks for the answer of the one request in flight, if it is the only one of the
// connection, and takes it in if it came.
func (q *queue) busyPoll(l *flight) bool {
	o := &q.ops[0]
	if o.s == nil {
		return false // a part, or over SMB
	}
	ios, came := l.conn.busyPoll(o.s)
	if !came {
		return false
	}
	o.deliver(o.s, ios)
	o.answer(ios, nil)
	l.conn.release(o.s)
	q.landedOne(o)
	return true
}

// delegate leaves it to other goroutines to hand out the answers of all connections but the
// one where the goroutine is about to sleep, until the function that it returns is called.
func (q *queue) delegate(at *flight) (over func()) {
	var left []*conn
	for _, l := range q.flights {
		if l == nil || l == at || l.sent == 0 {
			continue
		}
		l.conn.watchers.add(l.conn, q)
		if l.conn.enter() != nil {
			l.conn.watchers.remove(q)
			continue // one that is down has woken the queue
		}
		l.conn.baton.block()
		l.conn.armForOthers()
		left = append(left, l.conn)
	}
	return func() {
		for _, c := range left {
			c.watchers.remove(q)
			c.baton.unblock()
			c.leave()
		}
	}
}

// reap takes the operations that came back: each is over, or goes on with its next request.
func (q *queue) reap() {
	if q.answered.Load() == nil {
		return
	}
	list := q.answered.Swap(nil)
	var oldest *operation
	for list != nil {
		list, list.next, oldest = list.next, oldest, list
	}
	n, at, landed := int64(0), (*flight)(nil), 0
	for o := oldest; o != nil; n++ {
		next := o.next
		o.next = nil
		if at != o.flight {
			at.landed(landed)
			at, landed = o.flight, 0
		}
		o.s = nil
		landed++
		q.goOn(o)
		o = next
	}
	at.landed(landed)
	q.sent -= int(n)
	q.count.Add(-n)
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

package lwio

import (
	"context"
	"slices"
)

// leg is what a batch has in flight on one connection, and where the batch waits for it.
// A batch has one for each rail that it uses. It sleeps at one of them; an answer that
// comes by another wakes it there.
type leg struct {
	conn    *conn
	waiter  waiter
	sent    int // operations in flight
	starved int // queued operations that conn has no credit for
}

// legOn is the batch's part of a connection. Nothing of the batch is in flight any more on
// the one whose place that took.
func (b *Batch) legOn(cn *conn) *leg {
	at := &b.legs[cn.rail.index]
	if l := *at; l != nil && l.conn == cn {
		return l
	}
	*at = &leg{conn: cn, waiter: waiter{token: make(chan struct{}, 1)}}
	if len(b.legs) > 1 {
		cn.mourners.add(cn, b)
	}
	return *at
}

// all calls do for every leg.
func (b *Batch) all(do func(l *leg)) {
	for _, l := range b.legs {
		if l != nil {
			do(l)
		}
	}
}

// broken is a leg with something in flight on a connection that is down, or nil.
func (b *Batch) broken() *leg {
	for _, l := range b.legs {
		if l != nil && l.sent > 0 && l.conn.isDown() {
			return l
		}
	}
	return nil
}

// starve notes how many operations wait for a credit of the leg's connection. The server
// is told of them with the next request, so that it can grant more.
//
// Source: [LWIO claim 22], [OP-97]
func (l *leg) starve(n int) {
	if n != l.starved {
		l.conn.wanting.Add(int64(n - l.starved))
		l.starved = n
	}
}

// landed counts n operations as not in flight; n is 0 if there is no leg.
func (l *leg) landed(n int) {
	if n > 0 {
		l.sent -= n
		l.conn.wanting.Add(-int64(n))
	}
}

// rouse wakes the batch, wherever it sleeps.
func (b *Batch) rouse() {
	if l := b.at.Load(); l != nil {
		l.conn.wake(&l.waiter)
	}
}

// sleep waits until n operations have come back, or as many as make room for a good
// part of those that are queued.
func (b *Batch) sleep(ctx context.Context, n int) {
	n = b.answersFor(n)
	if b.queued < len(b.queue) {
		n = min(n, b.sent/2)
	}
	l := b.at.Load()
	if l == nil || l.sent == 0 || l != b.legs[l.conn.rail.index] {
		l = slices.MaxFunc(b.legs, func(x, y *leg) int { return x.inFlight() - y.inFlight() })
	}
	b.at.Store(l) // before need, by which others know whether to rouse
	b.need.Store(int64(min(max(n, 1), b.sent)))
	c := l.conn
	if c.enter() != nil {
		return
	}
	defer c.leave()
	if l.sent < b.sent {
		defer b.entrust(l)()
	}
	b.heed(ctx, c)
	until := int64(0)
	if !c.polled.empty() {
		until = c.clock() + c.patience()
	}
	c.await(ctx, &l.waiter, b, until, true)
}

func (l *leg) inFlight() int {
	if l == nil {
		return 0
	}
	return l.sent
}

// entrust leaves it to others to hand out the answers of all legs but the one where the
// batch is about to sleep, until what it returns is called.
func (b *Batch) entrust(at *leg) (over func()) {
	var left []*conn
	for _, l := range b.legs {
		if l == nil || l == at || l.sent == 0 || l.conn.enter() != nil {
			continue // one that is down has roused the batch
		}
		l.conn.baton.block()
		l.conn.armForOthers()
		left = append(left, l.conn)
	}
	return func() {
		for _, c := range left {
			c.baton.unblock()
			c.leave()
		}
	}
}

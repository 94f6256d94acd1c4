package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lwio/internal/wire"
	"lwio/rdma"
)

// ratedBytes returns the bytes that a message counts with the rate limit of its user: all that it
// asks for. An invalid message is refused, and counts none.
func (o *op) ratedBytes(l wire.Limits) int {
	if !o.h.Opcode.IO() || o.h.Check(o.size, l) != nil {
		return 0
	}
	n := int(o.h.Length)
	if o.h.Opcode == wire.OpVecRead {
		n = min(n, int(o.h.NumPages)*int(o.h.PageSize)) // a message with fewer is refused
	}
	return n
}

// throttle delays the connection if its user exceeds a rate limit. It posts the collected answers
// first. A throttled loop does not busy-poll.
func (l *receiveLoop) throttle(o *op) error {
	c := l.c
	wait := c.auth.limiter.Take(1, o.ratedBytes(c.auth.messages))
	if wait == 0 {
		return nil
	}
	c.engine.count.throttled.Add(1)
	l.stopSpinning()
	batch := completions.Get().(*[pollSize]rdma.Result)
	defer completions.Put(batch)
	return l.waitOut(wait, batch)
}

// waitOut waits for d. It defers new messages. Started I/O continues meanwhile, so the close of a
// file does not wait for the connection, and the end of the connection is noticed.
func (l *receiveLoop) waitOut(d time.Duration, batch *[pollSize]rdma.Result) error {
	c := l.c
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	defer c.credits.pause()()
	rest, deferred := l.rest, l.deferred
	l.rest, l.deferred = nil, nil
	if err := l.sift(rest); err != nil {
		return err
	}
	l.deferred = append(l.deferred, deferred...) // these messages arrived after the rest
	for {
		n, err := l.cq.Poll(batch[:])
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		if err := l.sift(batch[:n]); err != nil {
			return err
		}
		c.flush()
		switch {
		case c.send.drained():
			return errShutdown
		case ctx.Err() != nil:
			return context.Cause(c.ctx)
		case n > 0:
			continue
		}
		if err := l.cq.Wait(ctx, rdma.NotifyAny); err != nil && ctx.Err() == nil {
			return fmt.Errorf("notify: %w", err)
		}
	}
}

// sift handles completions and defers messages.
func (l *receiveLoop) sift(all []rdma.Result) error {
	for i := range all {
		if r := &all[i]; r.Op == rdma.OpReceive && r.Status == rdma.StatusSuccess {
			l.deferred = append(l.deferred, *r)
		} else if err := l.handle(r); err != nil {
			return err
		}
	}
	return nil
}

// poll returns completions, the deferred messages first.
func (l *receiveLoop) poll(batch *[pollSize]rdma.Result) (int, error) {
	if l.deferred == nil {
		return l.cq.Poll(batch[:])
	}
	n := copy(batch[:], l.deferred)
	if l.deferred = slices.Delete(l.deferred, 0, n); len(l.deferred) == 0 {
		l.deferred = nil
	}
	return n, nil
}

package server

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"lwio/rdma"
)

const (
	// pollSize is the number of completions that are polled at a time.
	pollSize = 32
	// flushPolls is the number of polls after which the loop posts its answers, however few:
	// other completions may arrive as fast as the loop handles them.
	flushPolls = 8
	// spinsPerCheck is the number of polls of a busy-poll between two looks at the time. It
	// stands for a few microseconds. A look costs as much as a dozen polls, and lets other
	// goroutines run.
	spinsPerCheck = 64
)

// completions is the scratch memory of the receive loops. An idle connection has none.
var completions = sync.Pool{New: func() any { return new([pollSize]rdma.Result) }}

// receiveLoop is the goroutine of a connection. It polls the completion queue, handles each
// completion, and posts the answers. Its state belongs to that goroutine.
type receiveLoop struct {
	c  *conn
	cq rdma.CompletionQueue

	rest []rdma.Result // completions of the batch that are not handled yet
	// deferred are messages that arrived while the rate limit of the user delayed the
	// connection: at most as many as the connection has receives.
	deferred []rdma.Result
	now      time.Duration // arrival of the first message of the batch, on the engine's clock; 0 before it

	slept          bool   // no message has arrived since the loop slept
	wake           uint64 // number of the last wake-up by a message
	oversubscribed bool   // at that wake-up
	backoff        spinBackoff
	spinning       bool // the loop has a place among the spinners
}

// run serves the connection until its end, and returns the cause of the end.
func (l *receiveLoop) run() error {
	for {
		batch := completions.Get().(*[pollSize]rdma.Result)
		_, err := l.drain(batch)
		for more := true; more && err == nil; {
			more, err = l.spin(batch)
		}
		completions.Put(batch)
		if err != nil {
			return err
		}
		if err := l.cq.Wait(l.c.ctx, rdma.NotifyAny); err != nil {
			if cause := context.Cause(l.c.ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("notify: %w", err)
		}
		l.slept = true
	}
}

// drain handles completions until the queue is empty, and reports whether it found any.
func (l *receiveLoop) drain(batch *[pollSize]rdma.Result) (found bool, err error) {
	for turn := 1; ; turn++ {
		if err := context.Cause(l.c.ctx); err != nil {
			return found, err
		}
		n, err := l.poll(batch)
		if err != nil {
			return found, fmt.Errorf("poll: %w", err)
		}
		if n == 0 {
			l.c.flush()
			if l.c.send.drained() {
				return found, errShutdown
			}
			return found, nil
		}
		found = true
		if err := l.handleAll(batch[:n]); err != nil {
			return found, err
		}
		if turn%flushPolls == 0 {
			l.c.flush()
		}
	}
}

// handleAll handles completions that were polled together. It posts the answers when there are
// enough of them; the next flush posts the others. It performs several READs of data in the page
// cache at a time.
func (l *receiveLoop) handleAll(all []rdma.Result) error {
	l.now = 0
	for l.rest = all; len(l.rest) > 0; {
		r := &l.rest[0]
		l.rest = l.rest[1:]
		if err := l.handle(r); err != nil {
			return err
		}
		if l.c.enoughToPost(len(l.rest)) {
			l.c.flush()
		}
	}
	l.c.reads.post()
	return nil
}

// handle handles one completion.
func (l *receiveLoop) handle(r *rdma.Result) error {
	if r.Status != rdma.StatusSuccess {
		return l.c.lost(r.Op, r.Status)
	}
	if r.Op == rdma.OpReceive {
		return l.c.receive(int32(r.ID), r)
	}
	return l.c.settle(r.ID, r.Bytes)
}

// arrival returns the time of arrival of the batch, on the engine's clock.
func (l *receiveLoop) arrival() time.Duration {
	if l.now == 0 {
		l.now = l.c.engine.clock()
		l.c.credits.arrived(l.now)
	}
	if l.slept { // a wake-up by a completion of the server's own request does not count
		l.slept = false
		l.wake, l.oversubscribed = l.c.engine.oversubscription.wake(l.wake)
	}
	return l.now
}

// stopSpinning leaves the spinners, if the loop is among them.
func (l *receiveLoop) stopSpinning() {
	if l.spinning {
		l.spinning = false
		l.c.engine.spinners.leave()
	}
}

// spin busy-polls for up to Limits.BusyPoll, if a completion is likely to arrive, and handles the
// completions. It returns false if there was none: then the loop sleeps.
func (l *receiveLoop) spin(batch *[pollSize]rdma.Result) (bool, error) {
	e := l.c.engine
	if l.oversubscribed || !l.backoff.next() || !e.spinners.enter() {
		return false, nil
	}
	l.spinning = true
	defer l.stopSpinning()
	for end := time.Duration(0); ; {
		for range spinsPerCheck {
			n, err := l.cq.Poll(batch[:])
			if n == 0 && err == nil {
				continue
			}
			l.backoff.record(true)
			if err == nil {
				err = l.handleAll(batch[:n])
			}
			if err == nil {
				_, err = l.drain(batch)
			}
			return true, err
		}
		if found, err := l.drain(batch); found || err != nil {
			l.backoff.record(true)
			return true, err
		}
		now := e.clock()
		if end == 0 {
			end = now + e.limits.BusyPoll
		}
		if now >= end {
			l.backoff.record(false)
			return false, nil
		}
		runtime.Gosched()
	}
}

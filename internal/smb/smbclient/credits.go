package smbclient

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// credits are the rights to send that the server has granted. It is safe for concurrent use.
//
// Source: [MS-SMB2 3.2.4.1.2], [MS-SMB2 3.2.5.1.4]
type credits struct {
	target  int           // the number that this side tries to have
	timeout time.Duration // of a wait
	end     *ending

	mu    sync.Mutex
	held  int // can be spent
	spent int // by requests without a final response
	queue []*creditWaiter
}

// creditWaiter is a call that waits for least to want credits.
type creditWaiter struct {
	least, want int
	got         chan int // the credits; closed without a value if there will never be enough
}

// take waits for credits and returns their number: want, or at least least if the server
// grants no more.
//
// Errors: the error of ctx, errTimeout, the end of the connection; ErrProtocol if the
// server will never grant least.
func (c *credits) take(ctx context.Context, least, want int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if c.end.over() {
		return 0, c.end.cause()
	}
	c.mu.Lock()
	wait := true
	if len(c.queue) == 0 {
		var got int
		if got, wait = c.tryLocked(least, want); got > 0 {
			c.mu.Unlock()
			return got, nil
		}
	}
	if !wait {
		c.mu.Unlock()
		return 0, errCredits(least)
	}
	w := &creditWaiter{least: least, want: want, got: make(chan int, 1)}
	c.queue = append(c.queue, w)
	c.mu.Unlock()

	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	var err error
	select {
	case n, ok := <-w.got:
		if !ok {
			return 0, errCredits(least)
		}
		return n, nil
	case <-c.end.down:
		err = c.end.cause()
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errTimeout
	}
	c.leave(w)
	return 0, err
}

// leave ends a wait. It returns credits that came at the last moment.
func (c *credits) leave(w *creditWaiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(x *creditWaiter) bool { return x == w })
	select {
	case n, ok := <-w.got:
		if ok {
			c.grantLocked(n, n)
			return
		}
	default:
	}
	c.grantLocked(0, 0) // the next in the queue may want less
}

// takeNow takes n credits if they are available at once. It reports whether it took them.
func (c *credits) takeNow(n int) bool {
	if c.end.over() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) > 0 || c.spareLocked() < n {
		return false
	}
	c.held -= n
	c.spent += n
	return true
}

// spareLocked returns the number of held credits that any request may take: all but one, which is for an
// ECHO. A connection with few credits keeps none. Precondition: mu is held.
func (c *credits) spareLocked() int {
	if c.held+c.spent > minCredits {
		return c.held - 1
	}
	return c.held
}

// takeEcho takes the credit of an ECHO. Without one it waits as take does.
func (c *credits) takeEcho(ctx context.Context) error {
	c.mu.Lock()
	if c.held > 0 {
		c.held--
		c.spent++
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	_, err := c.take(ctx, 1, 1)
	return err
}

// putBack returns credits that were taken and not sent.
func (c *credits) putBack(n int) { c.grant(n, n) }

// grant counts a response of the server: the request returns charge credits, zero for an
// interim response, and the server has granted new credits.
func (c *credits) grant(charge, granted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grantLocked(charge, granted)
}

// grantLocked is grant. Precondition: mu is held.
func (c *credits) grantLocked(charge, granted int) {
	c.spent -= charge
	c.held = min(c.held+granted, math.MaxInt32)
	for len(c.queue) > 0 {
		w := c.queue[0]
		got, wait := c.tryLocked(w.least, w.want)
		if wait {
			return
		}
		c.queue = c.queue[1:]
		if got > 0 {
			w.got <- got
		} else {
			close(w.got)
		}
	}
}

// tryLocked takes want credits, or all held credits if no more can be expected. It takes
// none and reports wait if the caller has to wait. Precondition: mu is held.
func (c *credits) tryLocked(least, want int) (got int, wait bool) {
	switch {
	case c.spareLocked() >= want:
		got = want
	case c.spent > 0:
		return 0, true
	case c.spareLocked() >= least:
		got = c.spareLocked()
	case c.held >= least:
		got = c.held
	default:
		return 0, false
	}
	c.held -= got
	c.spent += got
	return got, false
}

// missing returns the number of credits to ask for in addition to the cost of a request.
func (c *credits) missing() uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint16(min(max(c.target-c.held-c.spent, 0), math.MaxUint16))
}

// errCredits is the error of a call that can never be sent.
func errCredits(least int) error {
	return fmt.Errorf("%w: the server granted too few credits for a request that costs %d", ErrProtocol, least)
}

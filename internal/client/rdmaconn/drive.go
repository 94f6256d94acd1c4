package rdmaconn

import (
	"context"
	"runtime"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/poller"
	"lwio/rdma"
)

// Clock is the time since the connection was made, in nanoseconds.
func (c *Conn) Clock() int64 { return int64(time.Since(c.Born)) }

// Patience is for how long a call looks for an answer before it sleeps.
func (c *Conn) Patience() int64 {
	switch {
	case c.Cfg.Mode == base.Polling:
		return int64(pollingPatience)
	case c.Progress.single.Load():
		return int64(singlePatience)
	}
	return int64(adaptivePatience)
}

// Await waits until r is ready, ctx ends, or the connection is down. Until then, on
// the connection's clock, it looks rather than sleeps if there is something to look
// at. heeded says that the end of ctx wakes the poller, so that the call may sleep for all.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup]
func (c *Conn) Await(ctx context.Context, w *poller.Waiter, r poller.Condition, until int64, heeded bool) {
	over := ctx.Done()
	if !c.Status.Polled.Empty() && c.spin(over, r, until) {
		return
	}
	for !r.Ready() {
		if c.Progress.Poller.Park(w, over == nil || heeded) {
			c.hold(over, w, r, until)
			if c.IsDown() || ended(over) {
				return
			}
			continue
		}
		// The goroutine that sleeps may have fallen asleep before our request was there to be
		// polled for.
		c.ArmForOthers()
		if r.Ready() {
			c.Progress.Poller.Leave(w)
			return
		}
		select {
		case <-w.C():
			if w.HasRole() {
				c.hold(over, w, r, until)
			}
		case <-over:
			c.Progress.Poller.Leave(w)
			return
		case <-c.Life.Down:
			c.Progress.Poller.Leave(w)
			return
		}
	}
}

// spin looks for the condition r, and reports whether nothing is to be waited for
// any more. It does so as the poller, for all; otherwise only if the poller
// sleeps, and only one call at a time: then it looks at memory alone, and the
// provider's own goroutine moves the data.
func (c *Conn) spin(over <-chan struct{}, r poller.Condition, until int64) bool {
	if c.Progress.asleep.Load() {
		c.Progress.Poller.Claim() // the reader leaves the connection to this call
	}
	if !c.Progress.spinning.CompareAndSwap(false, true) {
		return false
	}
	defer c.Progress.spinning.Store(false)
	every := c.spinsPerCheck()
	for i := 1; !r.Ready(); i++ {
		if c.Progress.Poller.Take() {
			c.lookFor(over, r, until)
			c.Progress.Poller.Pass()
			return r.Ready() || c.IsDown()
		}
		if !c.Progress.asleep.Load() {
			return false // the poller looks too
		}
		c.scan()
		if i%every == 0 && !c.goOn(over, until) {
			return c.IsDown()
		}
	}
	return true
}

// lookFor looks for the condition r as the poller.
func (c *Conn) lookFor(over <-chan struct{}, r poller.Condition, until int64) {
	every := c.spinsPerCheck()
	for i := 1; !r.Ready() && !c.Status.Polled.Empty(); i++ {
		found, err := c.advance(false)
		if err != nil {
			c.Fail(c.reason(err))
			return
		}
		if found > 0 && !r.Ready() {
			runtime.Gosched() // let the calls run that were answered
			if c.Cfg.Mode == base.Polling {
				until = c.Clock() + c.Patience()
			}
		}
		if i%every == 0 && !c.goOn(over, until) {
			return
		}
	}
}

// spinsPerCheck is how many times a call looks for its answer before it looks at
// the time, and lets others run where there is one processor.
func (c *Conn) spinsPerCheck() int {
	switch {
	case !c.Progress.single.Load():
		return 64
	case c.Cfg.Mode == base.Polling:
		return 8
	}
	return 1
}

// ended reports whether over is closed.
func ended(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// goOn reports whether a call may look a while longer.
func (c *Conn) goOn(over <-chan struct{}, until int64) bool {
	if ended(over) || c.IsDown() {
		return false
	}
	if c.Progress.single.Load() {
		runtime.Gosched() // with a second processor it would wake that one for nothing
	}
	return c.Clock() < until
}

// hold is the work of a call that became the poller: it delivers completions
// until r is ready, over is closed or the connection is down, and passes the poller's role on.
func (c *Conn) hold(over <-chan struct{}, w *poller.Waiter, r poller.Condition, until int64) {
	for !r.Ready() && !c.IsDown() && !ended(over) {
		if !c.Status.Polled.Empty() {
			if c.Cfg.Mode == base.Polling {
				until = c.Clock() + c.Patience()
			}
			c.lookFor(over, r, until)
		}
		c.doze(over, w, r)
	}
	c.Progress.Poller.Pass()
}

// doze sleeps on the completion queue, unless there is something to hand out, over is
// closed, or r is ready. The caller, which waits at w, is the poller.
//
// The queue is not polled between the last look of the poller and its sleep,
// so that a completion that arrives then ends it. A request that is posted then, and polled for,
// is in the set before its caller sees that the poller sleeps, or is seen by arm:
// either of the two asks for a wake-up.
func (c *Conn) doze(over <-chan struct{}, w *poller.Waiter, r poller.Condition) {
	ctx := c.Progress.Poller.SleepContext()
	if r.Ready() || ended(over) || c.IsDown() {
		return
	}
	found, err := c.advance(true)
	if err == nil && found == 0 {
		if !c.arm() || c.scan() == 0 {
			w.BeginSleep()
			if !r.Ready() {
				err = c.cq.Wait(ctx, rdma.NotifyAny)
			}
			w.EndSleep()
		}
		c.Progress.asleep.Store(false)
		if ctx.Err() != nil {
			err = nil // woken
		}
		if err == nil {
			_, err = c.advance(false) // the reason of the wake-up
		}
	}
	if err != nil {
		c.Fail(c.reason(err))
	}
}

// wake ends the wait of a call whose answer is there, wherever it sleeps.
func (c *Conn) wake(w *poller.Waiter) { c.Progress.Poller.Wake(w) }

// advance takes the entries of the completion queue and looks at the status blocks; it
// returns how much there was. If it was nothing, the caller may be asleep from then
// on.
func (c *Conn) advance(sleep bool) (int, error) {
	c.Progress.mu.Lock()
	defer c.Progress.mu.Unlock()
	n, err := c.advanceLocked()
	if sleep && err == nil && n == 0 {
		c.Progress.asleep.Store(true)
	}
	return n, err
}

// advanceLocked takes the entries of the completion queue and looks at the status
// blocks; it returns how much there was. Precondition: progress.mu is held.
func (c *Conn) advanceLocked() (int, error) {
	b := &c.Progress.scratch
	n, err := c.cq.Poll(b.results[:])
	if n > 0 && err == nil {
		err = c.take(b, n)
	}
	if err != nil {
		return n, err
	}
	seen := c.scan()
	if c.Progress.woken {
		c.Progress.woken = false
		if seen == 0 {
			c.Counts.Spurious.Add(1)
		}
	}
	return n + seen, nil
}

// scan finishes the polled requests whose answers are there, and returns how many.
func (c *Conn) scan() int {
	n, l := 0, Delivery{}
	c.Status.Polled.each(func(i int) {
		if c.look(&c.Table.Entries[i], &l) {
			n++
		}
	})
	l.HandOver(c)
	return n
}

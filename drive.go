package lwio

import (
	"context"
	"runtime"
	"time"

	"lwio/rdma"
)

// ready is what a call waits for.
type ready interface {
	// ready reports whether the call need not wait any longer. It is called with
	// no lock held, by any number of goroutines.
	ready() bool
}

// clock is the time since the connection was made, in nanoseconds.
func (c *conn) clock() int64 { return int64(time.Since(c.born)) }

// patience is for how long a call looks for an answer before it sleeps.
func (c *conn) patience() int64 {
	switch {
	case c.cfg.mode == Polling:
		return int64(pollingPatience)
	case c.single.Load():
		return int64(singlePatience)
	}
	return int64(adaptivePatience)
}

// await waits until r is ready, ctx ends, or the connection is down. Until then, on
// the connection's clock, it looks rather than sleeps if there is something to look
// at. heeded says that the end of ctx kicks, so that the call may sleep for all.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup]
func (c *conn) await(ctx context.Context, w *waiter, r ready, until int64, heeded bool) {
	over := ctx.Done()
	if !c.polled.empty() && c.spin(over, r, until) {
		return
	}
	for !r.ready() {
		if c.baton.park(w, over == nil || heeded) {
			c.hold(over, w, r, until)
			if c.isDown() || ended(over) {
				return
			}
			continue
		}
		// Whoever sleeps may have fallen asleep before our request was there to be
		// polled for.
		c.armForOthers()
		if r.ready() {
			c.unpark(w)
			return
		}
		select {
		case <-w.token:
			if w.got() {
				c.hold(over, w, r, until)
			}
		case <-over:
			c.unpark(w)
			return
		case <-c.down:
			c.unpark(w)
			return
		}
	}
}

func (c *conn) unpark(w *waiter) {
	if c.baton.unpark(w) {
		c.baton.pass()
	}
}

// spin looks for what r waits for, and reports whether nothing is to be waited for
// any more. It does so with the baton, for all; without it only if who has it
// sleeps, and only one call at a time: then it looks at memory alone, and the
// provider's own goroutine moves the data.
func (c *conn) spin(over <-chan struct{}, r ready, until int64) bool {
	if c.asleep.Load() && c.baton.claim() {
		c.sleep.Wake() // the reader leaves the connection to us
	}
	if !c.spinning.CompareAndSwap(false, true) {
		return false
	}
	defer c.spinning.Store(false)
	every := c.spinsPerCheck()
	for i := 1; !r.ready(); i++ {
		if c.baton.take() {
			c.lookFor(over, r, until)
			c.baton.pass()
			return r.ready() || c.isDown()
		}
		if !c.asleep.Load() {
			return false // whoever has the baton looks too
		}
		c.scan()
		if i%every == 0 && !c.goOn(over, until) {
			return c.isDown()
		}
	}
	return true
}

// lookFor looks for what r waits for with the baton.
func (c *conn) lookFor(over <-chan struct{}, r ready, until int64) {
	every := c.spinsPerCheck()
	for i := 1; !r.ready() && !c.polled.empty(); i++ {
		found, err := c.advance(false)
		if err != nil {
			c.fail(c.reason(err))
			return
		}
		if found > 0 && !r.ready() {
			runtime.Gosched() // let those run whose answers these were
			if c.cfg.mode == Polling {
				until = c.clock() + c.patience()
			}
		}
		if i%every == 0 && !c.goOn(over, until) {
			return
		}
	}
}

// spinsPerCheck is how many times a call looks for its answer before it looks at
// the time, and lets others run where there is one processor.
func (c *conn) spinsPerCheck() int {
	switch {
	case !c.single.Load():
		return 64
	case c.cfg.mode == Polling:
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
func (c *conn) goOn(over <-chan struct{}, until int64) bool {
	if ended(over) || c.isDown() {
		return false
	}
	if c.single.Load() {
		runtime.Gosched() // with a second processor it would wake that one for nothing
	}
	return c.clock() < until
}

// hold is what a call does that was given the baton: it hands out what arrives
// until r is ready, over is closed or the connection is down, and passes the baton on.
func (c *conn) hold(over <-chan struct{}, w *waiter, r ready, until int64) {
	for !r.ready() && !c.isDown() && !ended(over) {
		if !c.polled.empty() {
			if c.cfg.mode == Polling {
				until = c.clock() + c.patience()
			}
			c.lookFor(over, r, until)
		}
		c.doze(over, w, r)
	}
	c.baton.pass()
}

// doze sleeps on the completion queue, unless there is something to hand out, over is
// closed, or r is ready. The caller, which waits at w, has the baton.
//
// Nobody polls the queue between the last look of who falls asleep and the sleep,
// so that what arrives then ends it. A request that is posted then, and polled for,
// is in the set before its caller sees that somebody sleeps, or is seen by arm:
// either of the two asks for a wake-up.
func (c *conn) doze(over <-chan struct{}, w *waiter, r ready) {
	ctx := c.sleep.Next()
	if r.ready() || ended(over) {
		return
	}
	found, err := c.advance(true)
	if err == nil && found == 0 {
		if !c.arm() || c.scan() == 0 {
			c.sleeper.Store(w)
			if !r.ready() {
				err = c.cq.Wait(ctx, rdma.NotifyAny)
			}
			c.sleeper.Store(nil)
		}
		c.asleep.Store(false)
		if ctx.Err() != nil {
			err = nil // kicked
		}
		if err == nil {
			_, err = c.advance(false) // what ended the sleep
		}
	}
	if err != nil {
		c.fail(c.reason(err))
	}
}

// wake ends the wait of a call whose answer is there, wherever it sleeps.
func (c *conn) wake(w *waiter) {
	c.baton.wake(w)
	if c.sleeper.Load() == w {
		c.sleep.Wake()
	}
}

// advance takes what is in the completion queue and looks at the status blocks; it
// returns how much there was. If it was nothing, the caller may be asleep from then
// on.
func (c *conn) advance(sleep bool) (int, error) {
	c.progressMu.Lock()
	defer c.progressMu.Unlock()
	n, err := c.advanceLocked()
	if sleep && err == nil && n == 0 {
		c.asleep.Store(true)
	}
	return n, err
}

// advanceLocked takes what is in the completion queue and looks at the status
// blocks; it returns how much there was. The caller holds progressMu.
func (c *conn) advanceLocked() (int, error) {
	b := &c.scratch
	n, err := c.cq.Poll(b.results[:])
	if n > 0 && err == nil {
		err = c.take(b, n)
	}
	if err != nil {
		return n, err
	}
	seen := c.scan()
	if c.woken {
		c.woken = false
		if seen == 0 {
			c.counts.spurious.Add(1)
		}
	}
	return n + seen, nil
}

// scan finishes the polled requests whose answers are there, and returns how many.
func (c *conn) scan() int {
	n, l := 0, landing{}
	c.polled.each(func(i int) {
		if c.look(&c.slots[i], &l) {
			n++
		}
	})
	l.handOver(c)
	return n
}

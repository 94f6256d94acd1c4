package rdmaconn

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/poller"
	"lwio/rdma"
)

// The rest of the reader: how long it leaves a connection alone that calls have used. For that
// time the loss of a credit or a late answer goes unnoticed. The time doubles, up to longestRest,
// while calls use the connection: the readers of a thousand connections in use must not keep a
// processor busy.
const (
	readerRest  = 5 * time.Millisecond
	longestRest = 64 * readerRest
)

// progress takes the completions. One goroutine at a time is the poller: it busy-polls status
// blocks and the completion queue, or sleeps on the queue, and delivers the answers of all
// goroutines. Safe for concurrent use.
type progress struct {
	poller   poller.Poller
	cq       rdma.CompletionQueue
	answers  *receiver
	status   *statusBlocks
	credits  *credits
	life     *lifecycle
	count    *traffic
	counts   *base.Counts
	reason   func(error) error // prefers the connector's error
	reading  sync.WaitGroup
	single   atomic.Bool // the program has one processor
	asleep   atomic.Bool // the poller sleeps, or is about to
	spinning atomic.Bool // a call busy-polls without having parked
	mu       sync.Mutex  // is held while completions are taken
}

// begin starts the reader goroutine. It is the poller while no call is, until the connection is
// down.
func (p *progress) begin() {
	p.reading.Go(func() {
		turn := readerTurn{p: p}
		p.poller.Serve(p.life.down, func(w *poller.Waiter, end poller.Condition) {
			turn.end = end
			turn.step(w)
		})
	})
}

// readerTurn is the state of the reader while it is the poller. As a condition it is the end of
// busy-polling.
type readerTurn struct {
	p   *progress
	end poller.Condition
}

// Ready reports that the reader may stop: no call needs it, or its turn is over.
func (t *readerTurn) Ready() bool { return !t.p.poller.NeedsReader() || t.end.Ready() }

// step delivers answers, or sleeps. In mode Polling the reader busy-polls before it sleeps, while
// calls wait that cannot be the poller. When all of these have their answers, the reader passes the
// role on, so that the next call busy-polls itself.
func (t *readerTurn) step(w *poller.Waiter) {
	p := t.p
	if p.status.mode == base.Polling && p.poller.NeedsReader() {
		until := int64(0)
		p.lookFor(nil, t, &until)
		if !p.poller.NeedsReader() {
			p.poller.Claim()
		}
	}
	p.doze(nil, w, t.end)
}

// countProcessors notes whether the program has one processor. The number can change.
func (p *progress) countProcessors() { p.single.Store(runtime.GOMAXPROCS(0) == 1) }

// patience is for how long a call busy-polls before it sleeps, in nanoseconds.
func (p *progress) patience() int64 {
	switch {
	case p.status.mode == base.Polling:
		return int64(pollingPatience)
	case p.single.Load():
		return int64(singlePatience)
	}
	return int64(adaptivePatience)
}

// Await waits at a place until enough tickets came back, ctx ends, or the connection is down. If
// status blocks are outstanding it busy-polls before it sleeps. heeded says that WakeOn was called
// with ctx, so that the caller may sleep as the poller. Precondition: the caller has pinned the
// connection.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup]
func (c *Conn) Await(ctx context.Context, at *Place, a *Arrivals, heeded bool) {
	c.progress.await(ctx, &at.waiter, a, heeded)
}

// await waits at w until r is ready, ctx ends, or the connection is down, as Conn.Await states.
func (p *progress) await(ctx context.Context, w *poller.Waiter, r poller.Condition, heeded bool) {
	over, until := ctx.Done(), int64(expired)
	if !p.status.polled.empty() {
		until = 0
		if p.spin(over, r, &until) {
			return
		}
	}
	for !r.Ready() {
		if p.poller.Park(w, over == nil || heeded) {
			p.hold(over, w, r, &until)
			if p.life.IsDown() || ended(over) {
				return
			}
			continue
		}
		// The poller may have fallen asleep before the caller's request was polled.
		p.armIfAsleep()
		if r.Ready() {
			p.poller.Leave(w)
			return
		}
		select {
		case <-w.C():
			if w.HasRole() {
				p.hold(over, w, r, &until)
			}
		case <-over:
			p.poller.Leave(w)
			return
		case <-p.life.down:
			p.poller.Leave(w)
			return
		}
	}
}

// armIfAsleep asks the server for a wake-up if the poller sleeps. A goroutine calls it that
// depends on answers and does not wait for them itself.
func (p *progress) armIfAsleep() {
	if p.asleep.Load() {
		p.credits.arm()
	}
}

// require has another goroutine deliver answers, while the caller waits for them elsewhere: the reader
// becomes the poller if no goroutine is. poller.Unblock must follow. Precondition: the caller has
// pinned the connection.
func (p *progress) require() {
	p.poller.Block()
	p.armIfAsleep()
}

// spin busy-polls for the condition r, and reports whether the wait is over. The caller is the
// poller if no other goroutine is. While the poller sleeps, one call at a time looks at the status
// blocks alone; the provider's own goroutine moves the data then.
func (p *progress) spin(over <-chan struct{}, r poller.Condition, until *int64) bool {
	if p.asleep.Load() {
		p.poller.Claim() // the reader leaves the connection to this call
	}
	if !p.spinning.CompareAndSwap(false, true) {
		return false
	}
	defer p.spinning.Store(false)
	every := p.spinsPerCheck()
	for i := 1; !r.Ready(); i++ {
		if p.poller.Take() {
			p.lookFor(over, r, until)
			p.poller.Pass()
			return r.Ready() || p.life.IsDown()
		}
		if !p.asleep.Load() {
			return false // the poller looks too
		}
		p.answers.scan()
		if i%every == 0 && !p.goOn(over, until) {
			return p.life.IsDown()
		}
	}
	return true
}

// lookFor busy-polls for the condition r. Precondition: the caller is the poller.
func (p *progress) lookFor(over <-chan struct{}, r poller.Condition, until *int64) {
	every := p.spinsPerCheck()
	for i := 1; !r.Ready() && !p.status.polled.empty(); i++ {
		found, err := p.advance(false)
		if err != nil {
			p.life.Fail(p.reason(err))
			return
		}
		if found > 0 && !r.Ready() {
			runtime.Gosched() // let the calls run that were answered
			if p.status.mode == base.Polling {
				*until = 0
			}
		}
		if i%every == 0 && !p.goOn(over, until) {
			return
		}
	}
}

// spinsPerCheck is how many times a call looks for its answer before it looks at the time. With
// one processor it then lets other goroutines run.
func (p *progress) spinsPerCheck() int {
	switch {
	case !p.single.Load():
		return 64
	case p.status.mode == base.Polling:
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

// expired is an end of patience that is over.
const expired = 1

// goOn reports whether a call may busy-poll on. until is the end of its patience on the
// connection's clock. 0 says that it begins now: an answer that comes at once costs no look at the
// clock.
func (p *progress) goOn(over <-chan struct{}, until *int64) bool {
	if ended(over) || p.life.IsDown() {
		return false
	}
	if p.single.Load() {
		runtime.Gosched() // with a second processor it would wake that one without need
	}
	now := p.count.now()
	if *until == 0 {
		*until = now + p.patience()
	}
	return now < *until
}

// hold delivers answers until r is ready, over is closed or the connection is down, and passes the
// poller role on. Precondition: the caller is the poller.
func (p *progress) hold(over <-chan struct{}, w *poller.Waiter, r poller.Condition, until *int64) {
	for !r.Ready() && !p.life.IsDown() && !ended(over) {
		if p.status.mode == base.Polling {
			*until = 0
		}
		p.lookFor(over, r, until)
		p.doze(over, w, r)
	}
	p.poller.Pass()
}

// doze delivers the answers that are there. Without one it sleeps at w on the completion queue,
// until there is an answer, over is closed or r is ready. Precondition: the caller is the poller.
//
// The queue is not polled between the last look and the sleep, so that a completion that arrives
// then ends the sleep. A request that is posted then is in the set of polled requests before its
// caller sees that the poller sleeps, or arm sees the request: one of them asks for a wake-up.
func (p *progress) doze(over <-chan struct{}, w *poller.Waiter, r poller.Condition) {
	ctx := p.poller.SleepContext()
	if r.Ready() || ended(over) || p.life.IsDown() {
		return
	}
	found, err := p.advance(true)
	if err == nil && found == 0 {
		if !p.credits.arm() || p.answers.scan() == 0 {
			w.BeginSleep()
			if !r.Ready() {
				err = p.cq.Wait(ctx, rdma.NotifyAny)
			}
			w.EndSleep()
		}
		p.asleep.Store(false)
		if ctx.Err() != nil {
			err = nil // woken
		}
		if err == nil {
			_, err = p.advance(false) // the reason of the wake-up
		}
	}
	if err != nil {
		p.life.Fail(p.reason(err))
	}
}

// advance takes completions and looks at the status blocks, and returns how many answers there
// were. With sleep, the caller is asleep from then on if there were none.
func (p *progress) advance(sleep bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.advanceLocked()
	if sleep && err == nil && n == 0 {
		p.asleep.Store(true)
	}
	return n, err
}

// advanceLocked is advance with mu held.
func (p *progress) advanceLocked() (int, error) {
	n, err := p.cq.Poll(p.answers.scratch.results[:])
	if n > 0 && err == nil {
		err = p.answers.take(n)
	}
	if err != nil {
		return n, err
	}
	seen := p.answers.scan()
	if p.answers.woken {
		p.answers.woken = false
		if seen == 0 {
			p.counts.Spurious.Add(1)
		}
	}
	return n + seen, nil
}

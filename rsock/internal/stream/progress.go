package stream

import (
	"context"
	"sync/atomic"
	"time"

	"lwio/internal/poller"
)

// source is where the completions of a stream come from.
type source interface {
	// poll handles the completions that are there, and returns their number. Only the
	// poller calls it.
	poll() int
	// sleep waits until there may be a completion, or ctx ends.
	sleep(ctx context.Context)
}

// progress has the completions of a stream handled. A call that waits is the poller of the
// stream, or it is parked; while no call waits, the goroutine of the stream is the poller.
type progress struct {
	poller.Poller
	src  source
	spin time.Duration // Config.BusyPoll
}

// pollerIdle is how long the role of the poller is free before the goroutine of the stream
// takes it.
const pollerIdle = 5 * time.Millisecond

// waiter is the place where one call waits. The call clears flag before it checks the condition
// that it waits for. A goroutine that changes the condition signals.
type waiter struct {
	poller.Waiter
	flag atomic.Bool
	bulk bool // the call waits for the next part of a bulk transfer; the call sets it
}

// Ready reports that the waiter was signalled since the call cleared the flag.
func (w *waiter) Ready() bool { return w.flag.Load() }

func (w *waiter) init() { w.Waiter = poller.NewWaiter() }

// init makes the role of the poller free. spin is Config.BusyPoll.
func (p *progress) init(src source, spin time.Duration) {
	p.src, p.spin = src, spin
	p.Init(pollerIdle, pollerIdle)
}

// signal sets the flag of w, and wakes its call.
func (p *progress) signal(w *waiter) {
	w.flag.Store(true)
	p.Wake(&w.Waiter)
}

// wait waits until w is signaled, as the poller or parked.
func (p *progress) wait(w *waiter) {
	for !w.flag.Load() {
		if !p.Park(&w.Waiter, true) {
			if p.spin > 0 {
				p.Claim()
			}
			if w.flag.Load() {
				p.Leave(&w.Waiter)
				return
			}
			if <-w.C(); !w.HasRole() {
				continue
			}
		}
		p.drive(w)
		p.Pass()
	}
}

// busyPoll returns the time of a busy-poll. bulk: the call waits for a part of a bulk transfer.
func (p *progress) busyPoll(bulk bool) time.Duration {
	if bulk && p.spin >= 0 {
		return max(p.spin, bulkSpin)
	}
	return p.spin
}

// drive polls until w is signaled. Precondition: the caller is the poller.
func (p *progress) drive(w *waiter) {
	spin := spinner{limit: p.busyPoll(w.bulk)}
	for !w.flag.Load() {
		if p.src.poll() > 0 {
			spin.polls = 0
			continue
		}
		if !spin.again() {
			p.sleep(&w.Waiter, w)
		}
	}
}

// sleep sleeps at w until there may be a completion, or end holds.
func (p *progress) sleep(w *poller.Waiter, end poller.Condition) {
	ctx := p.SleepContext()
	w.BeginSleep()
	if !end.Ready() {
		p.src.sleep(ctx)
	}
	w.EndSleep()
}

// attend is the work of the goroutine of the stream, until over is closed.
func (p *progress) attend(over <-chan struct{}) {
	p.Serve(over, func(w *poller.Waiter, end poller.Condition) {
		if p.src.poll() == 0 {
			p.sleep(w, end)
		}
	})
}

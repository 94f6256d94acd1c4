package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/waker"
)

// source is the completion source of a poller.
type source interface {
	// poll handles the completions that are there, and returns their number. Only the
	// poller calls it.
	poll() int
	// sleep waits until there may be a completion, or ctx ends.
	sleep(ctx context.Context)
}

// poller lets one goroutine at a time handle the completions of a connection for all calls.
// A call that has to wait takes the role if it is free, so that the completion that it waits
// for wakes it directly; other calls park until the poller wakes them or hands the role on. A
// call that leaves hands the role to the call that has waited longest, or gives it up. If the
// role is free for pollerIdle, the goroutine of the stream takes it.
type poller struct {
	src    source
	spin   time.Duration // Config.Spin
	waker  waker.Waker
	summon chan struct{} // wakes the goroutine of the stream
	idler  waiter        // of the goroutine of the stream

	mu     sync.Mutex // guards the fields below
	held   bool       // there is a poller
	byIdle bool       // it is the goroutine of the stream
	queue  []*waiter  // parked calls, the oldest first
	used   bool       // a call was the poller since the timer last fired
	armed  bool       // the timer runs
	timer  *time.Timer
}

// pollerIdle is how long the role is free before the goroutine of the stream takes it.
const pollerIdle = 5 * time.Millisecond

// waiter is where one call waits. The call clears flag before it checks the condition that
// it waits for; a goroutine that changes the condition signals.
type waiter struct {
	flag  atomic.Bool
	state atomic.Uint32
	token chan struct{}
	given bool // the role came with the token; the receiver of the token reads it
	bulk  bool // the call waits for the next part of a bulk transfer; the call sets it
}

// The states of a waiter.
const (
	waiterRuns   uint32 = iota
	waiterParked        // in the queue of the poller, or about to receive the token
	waiterSleeps        // is the poller, and sleeps
)

func (w *waiter) init() { w.token = make(chan struct{}, 1) }

// init starts the timer. spin is Config.Spin.
func (p *poller) init(src source, spin time.Duration) {
	p.src, p.spin = src, spin
	p.idler.init()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.summon = make(chan struct{}, 1)
	p.timer = time.AfterFunc(pollerIdle, p.tick) // which waits for mu
	p.armed = true
}

// wait waits until w is signaled, as the poller or parked.
func (p *poller) wait(w *waiter) {
	for !w.flag.Load() {
		if !p.take(w) {
			if p.spin != 0 {
				p.claim()
			}
			if w.flag.Load() {
				if p.leave(w) {
					p.pass()
				}
				return
			}
			<-w.token
			if !w.given {
				continue
			}
		}
		p.drive(w)
		p.pass()
	}
}

// drive polls until w is signaled. Precondition: the caller is the poller.
func (p *poller) drive(w *waiter) {
	spin := spinner{limit: p.spin}
	if w.bulk && spin.limit >= 0 {
		spin.limit = max(spin.limit, bulkSpin)
	}
	for !w.flag.Load() {
		if p.src.poll() > 0 {
			spin.polls = 0
			continue
		}
		if !spin.again() {
			p.sleep(w)
		}
	}
}

// sleep sleeps until there may be a completion, or w is signaled.
func (p *poller) sleep(w *waiter) {
	ctx := p.waker.Next()
	w.state.Store(waiterSleeps)
	if !w.flag.Load() {
		p.src.sleep(ctx)
	}
	w.state.Store(waiterRuns)
}

// attend is the goroutine of the stream. It is the poller while no call is, until over is
// closed.
func (p *poller) attend(over <-chan struct{}) {
	w := &p.idler
	for {
		select {
		case <-over:
			return
		case <-p.summon:
		}
		if !p.takeIdle() {
			continue
		}
		w.flag.Store(false)
		for !w.flag.Load() && !p.wanted() && !isClosed(over) {
			if p.src.poll() == 0 && !p.wanted() {
				p.sleep(w)
			}
		}
		p.pass()
	}
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// take makes the caller the poller, or parks w: then the caller must check its flag once
// more, and wait for the token or leave.
func (p *poller) take(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		p.held = true
		return true
	}
	p.queue = append(p.queue, w)
	w.state.Store(waiterParked)
	return false
}

// takeIdle makes the goroutine of the stream the poller if the role is free.
func (p *poller) takeIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		return false
	}
	p.held, p.byIdle = true, true
	return true
}

// wanted reports whether a call is parked.
func (p *poller) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) > 0
}

// claim asks the goroutine of the stream for the role, if it is the poller.
func (p *poller) claim() {
	p.mu.Lock()
	idle := p.byIdle
	p.mu.Unlock()
	if idle {
		p.signal(&p.idler)
	}
}

// leave ends the parking of w from its own side, and reports whether the role came to it
// meanwhile.
func (p *poller) leave(w *waiter) bool {
	p.mu.Lock()
	if p.removeLocked(w) {
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	<-w.token
	return w.given
}

func (p *poller) removeLocked(w *waiter) bool {
	for i, o := range p.queue {
		if o == w {
			copy(p.queue[i:], p.queue[i+1:])
			p.queue = p.queue[:len(p.queue)-1]
			w.state.Store(waiterRuns)
			return true
		}
	}
	return false
}

// signal sets the flag of w, and wakes its call.
func (p *poller) signal(w *waiter) {
	w.flag.Store(true)
	switch w.state.Load() {
	case waiterParked:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.removeLocked(w) {
			w.given = false
			w.token <- struct{}{}
		}
	case waiterSleeps:
		p.waker.Wake()
	}
}

// pass hands the role to the call that has waited longest, or gives it up.
func (p *poller) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byIdle = false
	if len(p.queue) > 0 {
		w := p.queue[0]
		p.removeLocked(w)
		w.given = true
		w.token <- struct{}{}
		return
	}
	p.held = false
	p.used = true
	if !p.armed {
		p.armed = true
		p.timer.Reset(pollerIdle)
	}
}

// tick wakes the goroutine of the stream if no call was the poller since the last tick. While
// a call is the poller, nothing is to be done: pass starts the timer again.
func (p *poller) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	switch {
	case p.held:
	case p.used:
		p.used, p.armed = false, true
		p.timer.Reset(pollerIdle)
	default:
		select {
		case p.summon <- struct{}{}:
		default:
		}
	}
}

// stop ends the timer for good.
func (p *poller) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true // so that pass does not start it again
	p.timer.Stop()
}

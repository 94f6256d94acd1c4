package poller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Poller is the role of the goroutine that takes the completions of a completion queue, with
// the waiters that are parked meanwhile. Init comes before all other methods. All other methods
// are safe for concurrent use.
type Poller struct {
	// taken says that a goroutine is the poller. It changes with mu held.
	taken atomic.Bool
	// used says that a call has wanted the role since the reader last looked.
	used   atomic.Bool
	waker  waker
	reader Waiter        // where the reader sleeps
	summon chan struct{} // wakes the reader; has room for one element

	// readerOnly is the number of waits that need a poller and cannot be the poller. It changes
	// with mu held.
	readerOnly atomic.Int64

	mu         sync.Mutex // guards the fields below
	byReader   bool       // the reader is the poller
	head, tail *Waiter    // parked waiters that may be the poller, in the order of their coming
	armed      bool       // the timer runs
	timer      *time.Timer
	rest       time.Duration // of the timer
	shortest   time.Duration // the first value of rest
	longest    time.Duration
}

// Init makes the role free. The reader takes it when no call has used it for shortest. The
// reader looks less often at a connection that calls use, down to once in longest, so that the
// readers of many connections in use cost little.
func (p *Poller) Init(shortest, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.summon = make(chan struct{}, 1)
	p.rest, p.shortest, p.longest = shortest, shortest, longest
	p.timer = time.AfterFunc(shortest, p.tick) // tick waits for mu
	p.armed = true
}

// Park makes the caller the poller and returns true, or parks w. mayPoll says that the caller
// can be the poller.
//
// The caller of a parked waiter then checks its condition once more. If the condition holds,
// the caller calls Leave. Else it receives from w.C, or calls Leave to give up.
func (p *Poller) Park(w *Waiter, mayPoll bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.mayPoll = mayPoll
	if !mayPoll {
		p.readerOnly.Add(1)
		p.summonLocked()
		w.state.Store(parked)
		return false
	}
	p.used.Store(true)
	if !p.taken.Load() {
		p.taken.Store(true)
		return true
	}
	w.prev = p.tail
	if p.tail == nil {
		p.head = w
	} else {
		p.tail.next = w
	}
	p.tail = w
	w.state.Store(parked)
	return false
}

// Take makes the caller the poller and returns true if no goroutine is the poller.
func (p *Poller) Take() bool {
	if p.taken.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.Store(true)
	if p.taken.Load() {
		return false
	}
	p.taken.Store(true)
	return true
}

// Pass gives the role to the waiter that has been parked for the longest time. Without a parked
// waiter the role is free. Precondition: the caller is the poller.
func (p *Poller) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byReader = false
	if p.head != nil {
		p.releaseLocked(p.head, true)
		return
	}
	p.taken.Store(false)
	if p.readerOnly.Load() > 0 {
		p.summonLocked()
	} else {
		p.armLocked()
	}
}

// Wake ends the wait at w, if the goroutine of w is parked or sleeps as the poller. The
// condition of w must hold before the call.
func (p *Poller) Wake(w *Waiter) {
	switch w.state.Load() {
	case parked:
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.state.Load() == parked {
			p.releaseLocked(w, false)
		}
	case asleep:
		p.waker.wake()
	}
}

// Leave ends the parking of w. A role that came to w meanwhile is passed on. Precondition: the
// caller has parked w and not received from w.C.
func (p *Poller) Leave(w *Waiter) {
	p.mu.Lock()
	if w.state.Load() == parked {
		p.removeLocked(w)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	<-w.token
	if w.hasRole {
		p.Pass()
	}
}

// Claim makes the reader pass the role on, if the reader is the poller. A call that wants to
// busy-poll uses it.
func (p *Poller) Claim() {
	p.mu.Lock()
	p.used.Store(true)
	byReader := p.byReader
	p.mu.Unlock()
	if byReader {
		p.Wake(&p.reader)
	}
}

// Block counts a wait that cannot end unless some goroutine is the poller, but does not wait
// at a [Waiter]. Unblock must follow.
func (p *Poller) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerOnly.Add(1)
	p.summonLocked()
}

// Unblock ends Block.
func (p *Poller) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerOnly.Add(-1)
}

// NeedsReader reports whether there are waits that cannot end unless another goroutine is the
// poller.
func (p *Poller) NeedsReader() bool { return p.readerOnly.Load() > 0 }

// SleepContext returns the context for one sleep of the poller on the completion queue. After
// the call the poller checks every condition that a [Poller.Wake] or [Poller.WakePoller]
// follows, so that no wake-up is lost.
func (p *Poller) SleepContext() context.Context { return p.waker.next() }

// WakePoller ends the sleep of the poller, wherever it sleeps.
func (p *Poller) WakePoller() { p.waker.wake() }

// releaseLocked ends the parking of w with a token.
func (p *Poller) releaseLocked(w *Waiter, hasRole bool) {
	p.removeLocked(w)
	w.hasRole = hasRole
	w.token <- struct{}{}
}

// removeLocked ends the parking of w.
func (p *Poller) removeLocked(w *Waiter) {
	w.state.Store(running)
	if !w.mayPoll {
		p.readerOnly.Add(-1)
		return
	}
	if w.prev == nil {
		p.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		p.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
}

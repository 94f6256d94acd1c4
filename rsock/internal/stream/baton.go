package stream

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/waker"
)

// baton is the right, and the duty, to look what arrives on a connection and to sleep where
// it does. A call that has to wait takes it if it is free, so that what it waits for wakes
// it and nobody in between; else it parks, and whoever has the baton wakes it. Who leaves
// passes the baton on, or lays it down. If it lies there for a while, the stream's goroutine
// takes it.
type baton struct {
	waker  waker.Waker
	summon chan struct{} // wakes the stream's goroutine

	mu    sync.Mutex // guards what follows
	held  bool
	by    *waiter   // the stream's goroutine, if it is that
	queue []*waiter // calls that wait for the baton, or for what whoever has it finds
	used  bool      // since the timer last looked
	armed bool      // the timer runs
	timer *time.Timer
}

// batonRest is how long the baton lies before the stream's goroutine takes it.
const batonRest = 5 * time.Millisecond

// waiter is where one call waits. The call sets flag to false before it looks at what it
// waits for; who changes that signals.
type waiter struct {
	flag  atomic.Bool
	state atomic.Uint32
	token chan struct{}
	given bool // the token came with the baton; of who took the token
	bulk  bool // it waits for a part of much data, which is not far; of who waits
}

// The states of a waiter.
const (
	waiterRuns   uint32 = iota
	waiterParked        // in the queue of the baton, or about to be told of it
	waiterSleeps        // has the baton, and sleeps
)

func (w *waiter) init() { w.token = make(chan struct{}, 1) }

func (b *baton) init() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.summon = make(chan struct{}, 1)
	b.timer = time.AfterFunc(batonRest, b.tick) // which waits for mu
	b.armed = true
}

// take takes the baton, or enters w in the queue: then it must look at its flag once more,
// and wait for the token or leave.
func (b *baton) take(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		b.held = true
		return true
	}
	b.queue = append(b.queue, w)
	w.state.Store(waiterParked)
	return false
}

// takeIdle takes the baton for the stream's goroutine, if nobody has it.
func (b *baton) takeIdle(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held {
		return false
	}
	b.held, b.by = true, w
	return true
}

// wanted tells whether a call waits for the baton.
func (b *baton) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

// claim asks the stream's goroutine for the baton, if that has it.
func (b *baton) claim() {
	b.mu.Lock()
	w := b.by
	b.mu.Unlock()
	if w != nil {
		b.signal(w)
	}
}

// leave ends the parking of w from its own side, and reports whether it got the baton.
func (b *baton) leave(w *waiter) bool {
	b.mu.Lock()
	if b.removeLocked(w) {
		b.mu.Unlock()
		return false
	}
	b.mu.Unlock()
	<-w.token
	return w.given
}

func (b *baton) removeLocked(w *waiter) bool {
	for i, o := range b.queue {
		if o == w {
			copy(b.queue[i:], b.queue[i+1:])
			b.queue = b.queue[:len(b.queue)-1]
			w.state.Store(waiterRuns)
			return true
		}
	}
	return false
}

// signal tells w to look again.
func (b *baton) signal(w *waiter) {
	w.flag.Store(true)
	switch w.state.Load() {
	case waiterParked:
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.removeLocked(w) {
			w.given = false
			w.token <- struct{}{}
		}
	case waiterSleeps:
		b.waker.Wake()
	}
}

// pass gives the baton to the call that has waited longest, or lays it down.
func (b *baton) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by = nil
	if len(b.queue) > 0 {
		w := b.queue[0]
		b.removeLocked(w)
		w.given = true
		w.token <- struct{}{}
		return
	}
	b.held = false
	b.used = true
	if !b.armed {
		b.armed = true
		b.timer.Reset(batonRest)
	}
}

// tick calls the stream's goroutine if the baton was not used for a while. While a call has
// it there is nothing to look for: pass comes later.
func (b *baton) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	switch {
	case b.held:
	case b.used:
		b.used, b.armed = false, true
		b.timer.Reset(batonRest)
	default:
		select {
		case b.summon <- struct{}{}:
		default:
		}
	}
}

// stop ends the timer.
func (b *baton) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = true // so that nobody starts it again
	b.timer.Stop()
}

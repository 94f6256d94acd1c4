package poller

import "sync/atomic"

// Condition is the end of a wait.
type Condition interface {
	// Ready reports whether the wait is over. It is called with no lock held, by any
	// goroutine.
	Ready() bool
}

// Waiter is the place where one goroutine at a time waits. [NewWaiter] makes it.
type Waiter struct {
	state atomic.Uint32
	token chan struct{} // the goroutine that ends the parking puts one element in

	// Poller.mu guards the fields below. The receiver of the token reads hasRole.
	next, prev *Waiter
	mayPoll    bool // in the list of the poller, not in readerOnly
	hasRole    bool // the token came with the role
}

// The states of a waiter.
const (
	running uint32 = iota
	parked         // in the list of the poller or in readerOnly; changes with Poller.mu held
	asleep         // its goroutine is the poller and sleeps on the completion queue
)

// NewWaiter returns a waiter.
func NewWaiter() Waiter { return Waiter{token: make(chan struct{}, 1)} }

// C returns the channel that receives an element when another goroutine ends the parking.
func (w *Waiter) C() <-chan struct{} { return w.token }

// HasRole reports whether the element of C made the waiter the poller.
func (w *Waiter) HasRole() bool { return w.hasRole }

// BeginSleep announces that the poller sleeps at w: from now on [Poller.Wake] ends the context
// of [Poller.SleepContext]. The poller checks its condition after BeginSleep and before it
// sleeps.
func (w *Waiter) BeginSleep() { w.state.Store(asleep) }

// EndSleep ends BeginSleep.
func (w *Waiter) EndSleep() { w.state.Store(running) }

package stream

import (
	"sync"
	"sync/atomic"
	"time"
)

// deadline is when calls of one kind give up. Programs set a deadline for each request, and
// mostly clear or move it before it passes. So there is one timer, and most calls of set do
// not touch it. The timer may fire too early; then it checks the deadline. Safe for
// concurrent use.
type deadline struct {
	over atomic.Bool // it has passed
	wake func()      // wakes the calls; set before the first use

	mu    sync.Mutex // guards the fields below
	at    time.Time  // zero: there is no deadline, or it has passed
	timer *time.Timer
	due   time.Time // when the timer fires, at the latest; zero: it does not run
	ended bool      // stop was called
}

// set sets the deadline; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.at = t
	if t.IsZero() {
		if d.over.Load() {
			d.over.Store(false)
		}
		return
	}
	d.checkLocked()
}

// pass checks the deadline. The timer calls it.
func (d *deadline) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = time.Time{}
	if !d.ended && !d.at.IsZero() {
		d.checkLocked()
	}
}

// checkLocked wakes the calls if the deadline has passed. Otherwise it ensures that the
// timer fires by the deadline. Precondition: there is a deadline.
func (d *deadline) checkLocked() {
	now := time.Now()
	left := d.at.Sub(now)
	if left <= 0 {
		d.at = time.Time{}
		d.over.Store(true)
		d.wake()
		return
	}
	d.over.Store(false)
	due := now.Add(left)
	switch {
	case d.timer == nil:
		d.timer = time.AfterFunc(left, d.pass)
	case d.due.IsZero() || due.Before(d.due):
		d.timer.Reset(left)
	default:
		return
	}
	d.due = due
}

// stop ends the timer. A later deadline has no effect.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

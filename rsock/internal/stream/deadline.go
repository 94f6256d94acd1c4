package stream

import (
	"sync"
	"sync/atomic"
	"time"
)

// deadline is when calls of one kind give up. Programs set it for each request, mostly to be
// taken back or moved on before it passes: so the timer is made once, and left alone where it
// fires too early, or for nothing; what is due then is looked at when it fires.
type deadline struct {
	over atomic.Bool // it has passed
	wake func()      // tells who waits so; set before the first use

	mu    sync.Mutex // guards what follows
	at    time.Time  // zero: there is none, or it has passed
	timer *time.Timer
	due   time.Time // when the timer fires, at the latest; zero: it does not run
	ended bool      // nobody sets it any more
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
	d.lookLocked()
}

// pass is what the timer calls.
func (d *deadline) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = time.Time{}
	if !d.ended && !d.at.IsZero() {
		d.lookLocked()
	}
}

// lookLocked sees whether the deadline, which there is, has passed, and else to it that the
// timer fires by then.
func (d *deadline) lookLocked() {
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

// stop ends the timer, for good.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// SetReadDeadline sets when Read, ReadUrgent and WriteTo give up, also those that wait
// already.
func (s *Stream) SetReadDeadline(t time.Time) error {
	if s.closing.Load() {
		return errClosed
	}
	s.readDeadline.set(t)
	return nil
}

// SetWriteDeadline sets when Write, WriteUrgent and ReadFrom give up, also those that wait
// already. A Write that gives up says how much of it is on its way.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	if s.closing.Load() {
		return errClosed
	}
	s.writeDeadline.set(t)
	return nil
}

// initDeadlines says who waits for which deadline.
func (s *Stream) initDeadlines() {
	s.readDeadline.wake = func() {
		s.baton.signal(&s.reader)
		s.baton.signal(&s.urgentReader)
	}
	s.writeDeadline.wake = func() { s.baton.signal(&s.writer) }
}

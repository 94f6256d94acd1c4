package session

import (
	"sync"
	"sync/atomic"
	"time"
)

// deadline is when calls of one kind give up.
type deadline struct {
	over atomic.Bool

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	turn  uint64 // of the last set
}

// set sets the deadline; the zero time is none. wake is called when it has passed.
func (d *deadline) set(t time.Time, wake func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.over.Store(false)
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.over.Store(true)
		wake()
		return
	}
	turn := d.turn
	d.timer = time.AfterFunc(left, func() { d.pass(turn, wake) })
}

// pass is what the timer calls.
func (d *deadline) pass(turn uint64, wake func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if turn == d.turn {
		d.over.Store(true)
		wake()
	}
}

// SetReadDeadline sets when Read, ReadUrgent and WriteTo give up, also those that wait
// already.
func (s *Stream) SetReadDeadline(t time.Time) error {
	if s.closing.Load() {
		return errClosed
	}
	s.readDeadline.set(t, func() {
		s.baton.signal(&s.reader)
		s.baton.signal(&s.urgentReader)
	})
	return nil
}

// SetWriteDeadline sets when Write, WriteUrgent and ReadFrom give up, also those that wait
// already. A Write that gives up says how much of it is on its way.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	if s.closing.Load() {
		return errClosed
	}
	s.writeDeadline.set(t, func() { s.baton.signal(&s.writer) })
	return nil
}

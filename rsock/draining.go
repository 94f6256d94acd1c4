package rsock

import (
	"context"
	"sync"
	"time"

	"lwio/rsock/internal/stream"
)

const (
	// closeWait is how long Close waits for the peer before the close goes on in the
	// background. A peer that runs answers in less time.
	closeWait = 100 * time.Millisecond
	// maxDraining bounds the connections of a Dialer or a Listener that are closed in
	// the background. With more connections Close waits.
	maxDraining = 1024
)

// draining counts the connections of a Dialer or a Listener that are closed in the
// background. Safe for concurrent use.
type draining struct {
	mu   sync.Mutex // guards the fields below
	n    int
	none chan struct{} // closed when n is 0 again; nil before the first
}

// begin counts one more connection. It returns false if there are too many.
func (d *draining) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == maxDraining {
		return false
	}
	if d.n++; d.n == 1 {
		d.none = make(chan struct{})
	}
	return true
}

// end counts one connection less.
func (d *draining) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n--; d.n == 0 {
		close(d.none)
	}
}

// wait waits until no connection is counted, or ctx ends.
func (d *draining) wait(ctx context.Context) error {
	for {
		d.mu.Lock()
		n, none := d.n, d.none
		d.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-none:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close ends a stream whose BeginClose was called. It waits for up to closeWait. Then a
// goroutine finishes the close, and wait waits for that goroutine.
func (d *draining) close(s *stream.Stream) error {
	if !d.begin() {
		return s.EndClose()
	}
	done := make(chan error, 1)
	go func() {
		defer d.end()
		done <- s.EndClose()
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return nil
	}
}

package rsock

import (
	"context"
	"sync"
	"time"

	"lwio/rsock/internal/stream"
)

const (
	// closeWait is how long a Close waits for the peer, which if it runs answers in less,
	// before it goes on in the background.
	closeWait = 100 * time.Millisecond
	// maxPartings bounds the connections of a Dialer or a Listener that are being closed in
	// the background; beyond it Close waits.
	maxPartings = 1024
)

// partings are the connections of a Dialer or a Listener that are being closed in the
// background. Safe for concurrent use.
type partings struct {
	mu   sync.Mutex // guards what follows
	n    int
	none chan struct{} // closed when n is 0 again; nil before the first
}

// begin counts one more, unless there are too many.
func (p *partings) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == maxPartings {
		return false
	}
	if p.n++; p.n == 1 {
		p.none = make(chan struct{})
	}
	return true
}

// end counts one less.
func (p *partings) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n--; p.n == 0 {
		close(p.none)
	}
}

// wait waits until there is none.
func (p *partings) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		n, none := p.n, p.none
		p.mu.Unlock()
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

// close closes a session of which BeginClose was called: it waits for that for a while, and
// leaves the rest to a goroutine that wait waits for.
func (p *partings) close(s *stream.Stream) error {
	if !p.begin() {
		return s.EndClose()
	}
	done := make(chan error, 1)
	go func() {
		defer p.end()
		done <- s.EndClose()
	}()
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return nil
	}
}

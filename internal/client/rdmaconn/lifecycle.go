package rdmaconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/rdma"
)

// lifecycle is the end of a connection: the first failure, the goroutines that hold up the
// teardown, and those that wait for it. Safe for concurrent use.
type lifecycle struct {
	provider string // begins the text of errors that do not name it
	onFail   func() // is called once, after the connection is down

	// mu is held for reading while a goroutine uses the connection's memory. The teardown
	// takes it for writing.
	mu       sync.RWMutex
	failOnce sync.Once
	failed   atomic.Bool // set after err
	err      error
	down     chan struct{} // closed after failed is set
	gone     chan struct{} // closed when everything is freed
	watchers closeWatchers
}

func (l *lifecycle) init(provider string, onFail func()) {
	l.provider, l.onFail = provider, onFail
	l.down, l.gone = make(chan struct{}), make(chan struct{})
}

// Fail ends the connection. The first cause is the error of the connection.
func (l *lifecycle) Fail(cause error) {
	l.failOnce.Do(func() {
		var named *rdma.Error
		if !errors.As(cause, &named) { // whose text begins with the provider
			cause = fmt.Errorf("%s: %w", l.provider, cause)
		}
		l.err = base.Lost(cause)
		l.failed.Store(true)
		close(l.down)
		l.onFail()
		l.watchers.notify()
	})
}

// IsDown reports whether the connection has ended.
func (l *lifecycle) IsDown() bool { return l.failed.Load() }

// Err is the reason of the end. The connection is down.
func (l *lifecycle) Err() error { return l.err }

// Down is closed when the connection has ended.
func (l *lifecycle) Down() <-chan struct{} { return l.down }

// Gone is closed when the connection is torn down: no other process reaches memory through it.
func (l *lifecycle) Gone() <-chan struct{} { return l.gone }

// isGone reports whether the connection is torn down.
func (l *lifecycle) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// TornDown waits until a connection that is down is torn down.
//
// Errors: ctx's.
func (l *lifecycle) TornDown(ctx context.Context) error {
	select {
	case <-l.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pin holds up the teardown of a connection that is not down, until Unpin. Requests are posted,
// and memory is registered, only in between. Pin does not wait for lifecycle.mu, so the caller may
// hold BufferTable.mu, or another pin.
//
// Errors: the error of the connection, after it is down.
func (l *lifecycle) Pin() error {
	if !l.mu.TryRLock() { // the teardown has it
		<-l.down
		return l.err
	}
	if l.IsDown() {
		l.mu.RUnlock()
		return l.err
	}
	return nil
}

// Hold holds up the teardown, also of a connection that is down, until Unpin. If the teardown
// has begun, Hold waits for its end. Precondition: the caller has no Pin or Hold of the connection, for
// which the teardown waits, and does not hold BufferTable.mu.
func (l *lifecycle) Hold() { l.mu.RLock() }

// Unpin ends a Pin or a Hold.
func (l *lifecycle) Unpin() { l.mu.RUnlock() }

// watch notifies w when the connection ends, or at once if it has ended.
func (l *lifecycle) watch(w closeWatcher) {
	l.watchers.add(w)
	if l.IsDown() {
		w.connectionFailed()
	}
}

package poller

import (
	"context"
	"sync"
)

// waker ends the sleep of the goroutine that has a context from it. At most one goroutine
// sleeps at a time. All methods are safe for concurrent use. The zero value is ready.
type waker struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
}

// next returns the context for one sleep. Sleeps that are not ended by wake share a context.
func (w *waker) next() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	return w.ctx
}

// wake ends the current sleep, or the next sleep if next has returned its context already.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

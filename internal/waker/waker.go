// Package waker ends sleeps on completion queues. A connection whose callers take turns
// as the poller has one.
package waker

import (
	"context"
	"sync"
)

// Waker ends the sleep of the goroutine that has a context from it. One goroutine sleeps at
// a time; all methods are safe for concurrent use. The zero value is ready.
type Waker struct {
	// Base ends all sleeps; nil if nothing does. It is set before the first use.
	Base context.Context

	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// Next returns the context for one sleep. The caller checks after the call whether the sleep
// is still needed, so that no wake-up is lost.
func (w *Waker) Next() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.ctx.Err() != nil {
		base := w.Base
		if base == nil {
			base = context.Background()
		}
		w.ctx, w.cancel = context.WithCancel(base)
	}
	return w.ctx
}

// Wake ends the current sleep, or the next one if its context was handed out already.
func (w *Waker) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

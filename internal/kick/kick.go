// Package kick ends sleeps on completion queues, for connections whose callers take
// turns in sleeping there.
package kick

import (
	"context"
	"sync"
)

// Kicker ends the sleep of who has a context from it. One sleeps at a time; all methods
// may be called at the same time. The zero value is ready.
type Kicker struct {
	// Base ends all sleeps; nil if nothing does. It is set before the first use.
	Base context.Context

	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// Next is the context for one sleep. What may make the sleep needless is looked at
// after the call, so that no kick is lost.
func (k *Kicker) Next() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil || k.ctx.Err() != nil {
		base := k.Base
		if base == nil {
			base = context.Background()
		}
		k.ctx, k.cancel = context.WithCancel(base)
	}
	return k.ctx
}

// Kick ends the sleep, or the next one that has its context already.
func (k *Kicker) Kick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
}

// Package barrier orders calls after all earlier writes of a file, without
// holding up later ones.
//
// Source: [OP-115]
package barrier

import (
	"context"
	"sync"
)

// Barrier has the epochs of a file: a write belongs to the epoch in which it began, and a
// waiter closes the epoch and waits until it, and all before it, are drained. The zero
// value has no writes. Safe for concurrent use, as are its epochs.
//
// Source: [OP-115]
type Barrier struct {
	mu    sync.Mutex
	cur   *Epoch
	begun uint64 // writes
}

// Epoch counts the writes that began in it and have not ended.
type Epoch struct {
	owner *Barrier
	// The rest is guarded by owner.mu.
	n       int
	sealed  bool
	drained chan struct{}
	prev    *Epoch // an older epoch that may not be drained
}

// Begun returns the number of writes that have begun.
func (e *Barrier) Begun() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun
}

// Begin counts a write in; End must be called on the result.
func (e *Barrier) Begin() *Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	if e.cur == nil {
		e.cur = &Epoch{owner: e}
	}
	e.cur.n++
	return e.cur
}

// More counts a write into the epoch of another that has not ended.
func (p *Epoch) More() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.n++
}

// End counts a write out.
func (p *Epoch) End() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.n--
	if p.n == 0 && p.sealed {
		close(p.drained)
	}
}

// Pending reports whether a write has not ended.
func (e *Barrier) Pending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p := e.cur; p != nil; p = p.prev {
		if p.n > 0 {
			return true
		}
	}
	return false
}

// Wait returns when all writes that began before the call have ended, and with ctx's
// error if they have not when ctx ends.
func (e *Barrier) Wait(ctx context.Context) error {
	newest := e.seal()
	for p := newest; p != nil; p = e.before(p) {
		select {
		case <-p.drained:
		case <-ctx.Done():
			if !p.over() {
				return context.Cause(ctx)
			}
		}
	}
	if newest != nil {
		e.mu.Lock()
		newest.prev = nil
		e.mu.Unlock()
	}
	return nil
}

// over tells whether a sealed epoch is drained.
func (p *Epoch) over() bool {
	select {
	case <-p.drained:
		return true
	default:
		return false
	}
}

func (e *Barrier) before(p *Epoch) *Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.prev
}

// seal closes the current epoch, if it has writes, and returns the newest that is
// not drained.
func (e *Barrier) seal() *Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.cur
	if p == nil {
		return nil
	}
	if p.n == 0 {
		return p.prev
	}
	p.sealed, p.drained = true, make(chan struct{})
	e.cur = &Epoch{owner: e, prev: p}
	return p
}

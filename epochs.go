package lwio

import (
	"context"
	"sync"
)

// epochs orders what must come after all earlier writes of a file, without
// holding up later ones: a write belongs to the epoch in which it began, and a
// waiter closes the epoch and waits until it, and all before it, are drained.
//
// Source: [OP-115]
type epochs struct {
	mu  sync.Mutex
	cur *epoch
}

// epoch counts the writes that began in it.
type epoch struct {
	owner *epochs
	// The rest is guarded by owner.mu.
	n       int
	sealed  bool
	drained chan struct{}
	prev    *epoch // an older epoch that may not be drained
}

// begin counts a write in; end must be called on what it returns.
func (e *epochs) begin() *epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cur == nil {
		e.cur = &epoch{owner: e}
	}
	e.cur.n++
	return e.cur
}

// more counts a write into the epoch of another that has not ended.
func (p *epoch) more() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.n++
}

// end counts a write out.
func (p *epoch) end() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.n--
	if p.n == 0 && p.sealed {
		close(p.drained)
	}
}

// wait returns when all writes that began before the call have ended, or with
// ctx's error.
func (e *epochs) wait(ctx context.Context) error {
	newest := e.seal()
	for p := newest; p != nil; p = e.before(p) {
		select {
		case <-p.drained:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if newest != nil {
		e.mu.Lock()
		newest.prev = nil
		e.mu.Unlock()
	}
	return nil
}

func (e *epochs) before(p *epoch) *epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.prev
}

// seal closes the current epoch, if it has writes, and returns the newest that is
// not drained.
func (e *epochs) seal() *epoch {
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
	e.cur = &epoch{owner: e, prev: p}
	return p
}

package vfs

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bits of references.n above the count.
const (
	refsClosing   = 1 << 40 // new references are refused
	refsAbandoned = 1 << 41 // no close waits for the held references
	refsCount     = refsClosing - 1
)

// references counts the I/O in flight of an open. Safe for concurrent use.
type references struct {
	n       atomic.Int64
	drained chan struct{} // made by refuse; closed when no reference is held
	drain   sync.Once
	last    sync.Once
}

// acquire adds a reference. It returns false if references are refused; then the caller calls
// release.
func (r *references) acquire() bool { return r.n.Add(1) < refsClosing }

// release removes a reference. It returns true once: for the last reference after abandon.
func (r *references) release() (last bool) {
	switch n := r.n.Add(-1); {
	case n < 0:
		panic("vfs: Release without Acquire")
	case n == refsClosing:
		r.drain.Do(func() { close(r.drained) })
	case n == refsClosing|refsAbandoned:
		return r.isLast()
	}
	return false
}

// held reports whether any reference is held.
func (r *references) held() bool { return r.n.Load()&refsCount != 0 }

// refused reports whether new references are refused.
func (r *references) refused() bool { return r.n.Load() >= refsClosing }

// refuse makes every later acquire fail. It is called once.
func (r *references) refuse() {
	r.drained = make(chan struct{})
	if r.n.Add(refsClosing)&refsCount == 0 {
		r.drain.Do(func() { close(r.drained) })
	}
}

// wait waits until no reference is held, for a limited time. It returns false after that time.
// Precondition: refuse has been called.
func (r *references) wait(most time.Duration) bool {
	if !r.held() {
		return true
	}
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	select {
	case <-r.drained:
		return true
	case <-timeout.C:
		return false
	}
}

// abandon ends the wait for references. It reports whether no reference is held; otherwise the last
// release reports it. It is called once, after refuse.
func (r *references) abandon() (last bool) {
	return r.n.Add(refsAbandoned)&refsCount == 0 && r.isLast()
}

// isLast returns true at its first call only.
func (r *references) isLast() (first bool) {
	r.last.Do(func() { first = true })
	return first
}

package softrdma

import (
	"sync/atomic"

	"lwio/rdma"
)

// Window exposes a part of a region to the peer of one queue pair at a time. Bind and
// invalidate take effect in the order of the initiator queue.
//
// Source: [ND MemoryWindow], [OP-111b]
type Window struct {
	d *Domain
	// home is the table of the window. The lock of the table guards the fields below.
	// Only a window without a binding, in force or pending, moves to another table.
	home atomic.Pointer[Windows]

	cur     *binding // the binding in force
	last    *binding // the binding of the last posted bind, until it is invalidated
	revoked bool     // the peer, or the end of a connection, has ended the binding
	waiting int      // requests that are not carried out yet
	closed  bool
	addr    rdma.RemoteAddr
}

var _ rdma.MemoryWindow = (*Window)(nil)

// CreateMemoryWindow makes an unbound window.
func (d *Domain) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	w := &Window{d: d}
	w.home.Store(&d.nowhere)
	if err := d.Add(MemoryWindows, w, "create memory window"); err != nil {
		return nil, err
	}
	return w, nil
}

// lock locks the table of the window and returns it.
func (w *Window) lock() *Windows {
	for {
		h := w.home.Load()
		h.mu.Lock()
		if w.home.Load() == h {
			return h
		}
		h.mu.Unlock()
	}
}

// RemoteAddr returns the address of the last posted bind.
func (w *Window) RemoteAddr() rdma.RemoteAddr {
	h := w.lock()
	defer h.mu.Unlock()
	return w.addr
}

// Close revokes the binding at once, before queued requests.
func (w *Window) Close() error {
	h := w.lock()
	w.closed = true
	w.endLocked()
	h.mu.Unlock()
	w.d.Remove(MemoryWindows, w)
	return nil
}

// moveTo makes t the home of the window if the window has no binding, in force or
// pending. Precondition: the caller holds no lock.
func (w *Window) moveTo(t *Windows) {
	h := w.lock()
	defer h.mu.Unlock()
	if w.waiting == 0 && w.last == nil && w.cur == nil {
		w.revoked = false
		w.home.Store(t)
	}
}

// endLocked ends the binding in force.
func (w *Window) endLocked() {
	if l := w.cur; l != nil {
		w.cur = nil
		l.t.revokeLocked(l)
	}
}

// bound reports whether a window of the domain is bound to r.
func (d *Domain) bound(r *Region) bool {
	for _, o := range d.snapshot(MemoryWindows) {
		w := o.(*Window)
		h := w.lock()
		bound := w.cur != nil && w.cur.region == r
		h.mu.Unlock()
		if bound {
			return true
		}
	}
	return false
}

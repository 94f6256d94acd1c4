package softrdma

import (
	"sync/atomic"

	"lwio/rdma"
)

// Window lends a part of a region to the peer of one queue pair at a time. Bind
// and invalidate take effect when their turn comes in the initiator queue.
//
// Source: [ND MemoryWindow], [OP-111b]
type Window struct {
	d *Domain
	// home is the table that the window stands in, or could; its lock guards what
	// follows. Only a window that lends nothing, now or soon, moves.
	home atomic.Pointer[Windows]

	cur     *lent // in force
	last    *lent // of the last bind that was posted, while that counts
	revoked bool  // the peer, or the end of a connection, has ended it
	waiting int   // requests that are not carried out
	closed  bool
	addr    rdma.RemoteAddr
}

var _ rdma.MemoryWindow = (*Window)(nil)

// CreateMemoryWindow makes a window that lends nothing yet.
func (d *Domain) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	w := &Window{d: d}
	w.home.Store(&d.nowhere)
	if err := d.Add(MemoryWindows, w, "create memory window"); err != nil {
		return nil, err
	}
	return w, nil
}

// lock locks the table that the window is in.
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

// RemoteAddr is that of the last bind that was posted.
func (w *Window) RemoteAddr() rdma.RemoteAddr {
	h := w.lock()
	defer h.mu.Unlock()
	return w.addr
}

// Close revokes the window at once, without waiting for its turn.
func (w *Window) Close() error {
	h := w.lock()
	w.closed = true
	w.endLocked()
	h.mu.Unlock()
	w.d.Remove(MemoryWindows, w)
	return nil
}

// moveTo makes t the home of the window, if nothing keeps it where it is. The
// caller holds no lock.
func (w *Window) moveTo(t *Windows) {
	h := w.lock()
	defer h.mu.Unlock()
	if w.waiting == 0 && w.last == nil && w.cur == nil {
		w.revoked = false
		w.home.Store(t)
	}
}

// endLocked ends what is in force.
func (w *Window) endLocked() {
	if l := w.cur; l != nil {
		w.cur = nil
		l.t.revokeLocked(l)
	}
}

// lends tells whether some window of the domain is bound to r.
func (d *Domain) lends(r *Region) bool {
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

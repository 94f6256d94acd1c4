package softrdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// Windows is the table of the memory windows of one queue pair. All methods but Resolve
// work under the lock of the queue pair's initiator queue.
//
// Source: [ND MemoryWindow], [OP-111b]
type Windows struct {
	d     *Domain
	mu    *sync.Mutex
	gen   *rand.ChaCha8
	table tokenTable[binding]
	// cached is the first region that the peer named, until the region is closed. Most
	// peers use one region, and then no table is searched. Only one connection caches a
	// region, and the region refers to that connection, so that Close can release the
	// memory.
	cached atomic.Pointer[Region]
	idle   chan struct{} // gets a value when a binding has no more references
}

// Init makes the table with the lock that guards it.
func (t *Windows) Init(d *Domain, mu *sync.Mutex) {
	t.d, t.mu, t.idle = d, mu, make(chan struct{}, 1)
}

// WindowWork is a bind or an invalidate that waits for its turn. The zero value is no
// work.
type WindowWork struct {
	window  *Window
	binding *binding // of a bind
}

// AdoptLocked moves an unbound window from another queue pair to this one. Call it before
// the post of a bind. It may release the lock meanwhile. If the window cannot be moved,
// PostLocked returns the reason.
func (t *Windows) AdoptLocked(r *rdma.Request) {
	w, ok := r.Window.(*Window)
	if !ok || w == nil || w.d != t.d || w.home.Load() == t || r.Op != rdma.OpBind {
		return
	}
	t.mu.Unlock()
	w.moveTo(t)
	t.mu.Lock()
}

// PostLocked checks a bind or an invalidate, and carries it out if now is set. Otherwise
// the caller calls CarryOutLocked or GiveUpLocked later.
//
// Errors: StatusInvalidParameter for the window, StatusAccessViolation for the region,
// StatusInvalidHandle for a closed window, StatusInvalidDeviceRequest for a bind of a
// bound window or an invalidate of an unbound one.
//
// Source: [ND QueuePair.Bind], [ND QueuePair.Invalidate], [OP-111b]
func (t *Windows) PostLocked(r *rdma.Request, now bool) (WindowWork, rdma.Status) {
	w, ok := r.Window.(*Window)
	if !ok || w == nil || w.d != t.d {
		return WindowWork{}, rdma.StatusInvalidParameter
	}
	if r.Op == rdma.OpInvalidate {
		return t.invalidateLocked(w, now)
	}
	return t.bindLocked(w, r, now)
}

// bindLocked gives the window its next token.
func (t *Windows) bindLocked(w *Window, r *rdma.Request, now bool) (WindowWork, rdma.Status) {
	m := t.d.RegionOf(r.Region)
	access := rdma.Access(0)
	if r.Flags&rdma.FlagAllowRead != 0 {
		access |= rdma.AccessRemoteRead
	}
	if r.Flags&rdma.FlagAllowWrite != 0 {
		access |= rdma.AccessRemoteWrite
	}
	if m == nil || access.Has(rdma.AccessLocalWrite) && !m.access.Has(rdma.AccessLocalWrite) ||
		!inside(r.Offset, r.Length, len(m.buf)) {
		return WindowWork{}, rdma.StatusAccessViolation
	}
	switch {
	case w.home.Load() != t:
		return WindowWork{}, rdma.StatusInvalidDeviceRequest
	case w.closed:
		return WindowWork{}, rdma.StatusInvalidHandle
	case w.last != nil:
		return WindowWork{}, rdma.StatusInvalidDeviceRequest
	case !m.markWindowed() || !now && !m.pin():
		return WindowWork{}, rdma.StatusAccessViolation
	}
	l := t.newLocked()
	l.window, l.region, l.access = w, m, access
	l.buf, l.base = m.buf[r.Offset:r.Offset+r.Length], m.base+uint64(r.Offset)
	w.last, w.revoked = l, false
	w.addr = rdma.RemoteAddr{Addr: l.base, Token: rdma.RemoteToken(l.token)}
	if now {
		t.forceLocked(l)
		return WindowWork{}, rdma.StatusSuccess
	}
	w.waiting++
	return WindowWork{w, l}, rdma.StatusSuccess
}

// invalidateLocked invalidates the window. A window that the peer has invalidated may be
// invalidated again, because the program cannot know of the peer's invalidate.
func (t *Windows) invalidateLocked(w *Window, now bool) (WindowWork, rdma.Status) {
	switch {
	case w.home.Load() != t:
		return WindowWork{}, rdma.StatusInvalidDeviceRequest
	case w.closed:
		return WindowWork{}, rdma.StatusInvalidHandle
	case w.last == nil && !w.revoked:
		return WindowWork{}, rdma.StatusInvalidDeviceRequest
	}
	w.last, w.revoked = nil, false
	if now {
		w.endLocked()
		return WindowWork{}, rdma.StatusSuccess
	}
	w.waiting++
	return WindowWork{window: w}, rdma.StatusSuccess
}

// CarryOutLocked carries out a waiting request in its turn.
func (t *Windows) CarryOutLocked(x *WindowWork) {
	w, l := x.window, x.binding
	*x = WindowWork{}
	w.waiting--
	switch {
	case l == nil:
		w.endLocked()
	case w.closed:
		l.region.unpin()
		t.freeLocked(l)
	default:
		w.endLocked() // an earlier invalidate may have been given up
		t.forceLocked(l)
		l.region.unpin()
	}
}

// GiveUpLocked undoes a request that will not be carried out. The zero value needs no
// undoing.
func (t *Windows) GiveUpLocked(x *WindowWork) {
	w, l := x.window, x.binding
	if w == nil {
		return
	}
	*x = WindowWork{}
	if w.waiting--; w.waiting == 0 {
		w.last = w.cur
	}
	if l != nil {
		l.region.unpin()
		t.freeLocked(l)
	}
}

// Invalidate ends a binding at the request of the peer. It returns false if there is
// none.
//
// Source: [RFC 5040 §4.7]
func (t *Windows) Invalidate(token uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.find(token)
	if l == nil || uint32(l.state.Load()>>32) != token {
		return false
	}
	l.window.lostLocked()
	return true
}

// RevokeAll ends all bindings at the end of the connection, and drops the cached region.
func (t *Windows) RevokeAll() {
	if r := t.cached.Load(); r != nil {
		t.uncache(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.table.slots.Load()
	if slots == nil {
		return
	}
	for i := range *slots {
		if l := (*slots)[i].Load(); l != nil && l.window != nil && l.window.cur == l {
			l.window.lostLocked()
		}
	}
}

// lostLocked ends the binding in force without a request of the program.
func (w *Window) lostLocked() {
	if w.last == w.cur {
		w.last, w.revoked = nil, true
	}
	w.endLocked()
}

// newLocked returns a free binding with a new token.
func (t *Windows) newLocked() *binding {
	if t.gen == nil {
		t.gen = t.d.Keys.generator()
	}
	t.table.reserve(func(l *binding) uint32 { return l.token })
	for {
		token := uint32(t.gen.Uint64()) | 1
		s := t.table.slot(token)
		l := s.Load()
		if l == nil {
			l = &binding{t: t}
			s.Store(l)
		}
		if l.token == 0 {
			l.token = token
			return l
		}
	}
}

// forceLocked puts a binding in force.
func (t *Windows) forceLocked(l *binding) {
	l.window.cur = l
	l.state.Add(uint64(l.token) << 32)
}

// revokeLocked ends a binding and waits for the accesses in progress. Each is one copy,
// or one system call that does not block.
//
// Source: [RFC 5042 §6.3.3]
func (t *Windows) revokeLocked(l *binding) {
	s := l.state.Add(-(uint64(l.token) << 32))
	for s != 0 {
		<-t.idle
		s = l.state.Load()
	}
	t.freeLocked(l)
}

// freeLocked makes a binding free for reuse.
func (t *Windows) freeLocked(l *binding) {
	l.token, l.window, l.region, l.buf = 0, nil, nil, nil
	t.table.used--
}

// find returns the binding in the slot of a token, or nil. The binding may have another
// token.
func (t *Windows) find(token uint32) *binding {
	if s := t.table.slot(token); s != nil {
		return s.Load()
	}
	return nil
}

// region returns the open region of a token, or nil.
func (t *Windows) region(token uint32) *Region {
	cached := t.cached.Load()
	if cached != nil && cached.token == token && cached.Open() {
		return cached
	}
	r := t.d.regions.find(token)
	if r == nil || !r.Open() {
		return nil
	}
	if cached == nil && r.cachedBy.CompareAndSwap(nil, t) {
		if t.cached.Store(r); !r.Open() {
			t.uncache(r) // Close may have read cachedBy before
		}
	}
	return r
}

// uncache drops r as the cached region.
func (t *Windows) uncache(r *Region) {
	t.cached.CompareAndSwap(r, nil)
	r.cachedBy.CompareAndSwap(t, nil)
}

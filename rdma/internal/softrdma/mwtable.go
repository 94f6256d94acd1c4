package softrdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// Windows are the windows of one queue pair: a table of what its peer may touch,
// besides the regions of the domain. It works under the lock of the queue pair's
// initiator queue, but for Resolve, which takes none.
//
// Source: [ND MemoryWindow], [OP-111b]
type Windows struct {
	d     *Domain
	mu    *sync.Mutex
	gen   *rand.ChaCha8
	table tokenTable[lent]
	// usual is the region that the peer named first, until that is closed: mostly it names
	// no other, and need not be looked for. A region is that of one connection only, whose
	// name it has, so that its memory is not kept when it is closed.
	usual atomic.Pointer[Region]
	idle  chan struct{} // gets a value when something has no references any more
}

// Init makes the table, with the lock that guards it.
func (t *Windows) Init(d *Domain, mu *sync.Mutex) {
	t.d, t.mu, t.idle = d, mu, make(chan struct{}, 1)
}

// WindowWork is a bind or an invalidate that waits for its turn. The zero value
// is none.
type WindowWork struct {
	window *Window
	lent   *lent // of a bind
}

// AdoptLocked makes it possible to bind a window here that was used elsewhere. A
// post of a bind or an invalidate begins with it, as it may let go of the lock
// meanwhile. If it cannot be, PostLocked says why.
func (t *Windows) AdoptLocked(r *rdma.Request) {
	w, ok := r.Window.(*Window)
	if !ok || w == nil || w.d != t.d || w.home.Load() == t || r.Op != rdma.OpBind {
		return
	}
	t.mu.Unlock()
	w.moveTo(t)
	t.mu.Lock()
}

// PostLocked checks a bind or an invalidate. If it is to be now, it is carried
// out, else when the caller says so, or given up.
//
// Errors: StatusInvalidParameter for the window, StatusAccessViolation for the
// region, StatusInvalidHandle for a closed window, StatusInvalidDeviceRequest for
// a bind of one that is bound or an invalidate of one that is not.
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
	case !m.lend() || !now && !m.pin():
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

// invalidateLocked: a window that the peer has invalidated already may be
// invalidated again, as the program cannot know.
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

// CarryOutLocked does what a request says whose turn it is.
func (t *Windows) CarryOutLocked(x *WindowWork) {
	w, l := x.window, x.lent
	*x = WindowWork{}
	w.waiting--
	switch {
	case l == nil:
		w.endLocked()
	case w.closed:
		l.region.unpin()
		t.freeLocked(l)
	default:
		w.endLocked() // if an invalidate before it was given up
		t.forceLocked(l)
		l.region.unpin()
	}
}

// GiveUpLocked undoes what a request has done that will not be carried out, if x
// is one.
func (t *Windows) GiveUpLocked(x *WindowWork) {
	w, l := x.window, x.lent
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

// Invalidate ends a binding for the peer. It is false if there is none.
//
// Source: [RFC 5040 §4.6]
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

// RevokeAll ends all bindings, at the end of the connection, and that it has a usual region.
func (t *Windows) RevokeAll() {
	if r := t.usual.Load(); r != nil {
		t.forget(r)
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

// lostLocked ends what is in force without the program's asking for it.
func (w *Window) lostLocked() {
	if w.last == w.cur {
		w.last, w.revoked = nil, true
	}
	w.endLocked()
}

// newLocked is a free place in the table, with a token.
func (t *Windows) newLocked() *lent {
	if t.gen == nil {
		t.gen = t.d.Keys.generator()
	}
	t.table.reserve(func(l *lent) uint32 { return l.token })
	for {
		token := uint32(t.gen.Uint64()) | 1
		s := t.table.slot(token)
		l := s.Load()
		if l == nil {
			l = &lent{t: t}
			s.Store(l)
		}
		if l.token == 0 {
			l.token = token
			return l
		}
	}
}

// forceLocked puts a binding in force.
func (t *Windows) forceLocked(l *lent) {
	l.window.cur = l
	l.state.Add(uint64(l.token) << 32)
}

// revokeLocked ends a binding and waits until nobody touches the memory for its
// sake: one copy, or one system call that does not block.
//
// Source: [RFC 5042 §6.3.1]
func (t *Windows) revokeLocked(l *lent) {
	s := l.state.Add(-(uint64(l.token) << 32))
	for s != 0 {
		<-t.idle
		s = l.state.Load()
	}
	t.freeLocked(l)
}

// freeLocked makes a place free again.
func (t *Windows) freeLocked(l *lent) {
	l.token, l.window, l.region, l.buf = 0, nil, nil, nil
	t.table.used--
}

// find gives the place of a token, or nil. What is there may be of another token.
func (t *Windows) find(token uint32) *lent {
	if s := t.table.slot(token); s != nil {
		return s.Load()
	}
	return nil
}

// region gives the open region of a token, or nil.
func (t *Windows) region(token uint32) *Region {
	usual := t.usual.Load()
	if usual != nil && usual.token == token && usual.Open() {
		return usual
	}
	r := t.d.regions.find(token)
	if r == nil || !r.Open() {
		return nil
	}
	if usual == nil && r.usualOf.CompareAndSwap(nil, t) {
		if t.usual.Store(r); !r.Open() {
			t.forget(r) // Close may have looked before
		}
	}
	return r
}

// forget ends that a region is the usual one.
func (t *Windows) forget(r *Region) {
	t.usual.CompareAndSwap(r, nil)
	r.usualOf.CompareAndSwap(t, nil)
}

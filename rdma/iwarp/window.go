package iwarp

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// binding is what a window lends, and its token.
type binding struct {
	region *region
	buf    []byte
	base   uint64
	access rdma.Access
	token  uint32
}

// window lends a part of a region to the peer of one queue pair: it is a slot in
// the table of that queue pair while it is in force. Bind and invalidate take
// effect when their turn comes in the initiator queue.
//
// Source: [ND MemoryWindow], [OP-111b]
type window struct {
	a    *adapter
	idle chan struct{}
	// state has the number of references in its lower half, and in its upper half
	// one that grows with every change and is odd while the window is in force.
	state atomic.Uint64
	cur   binding // guarded by the table's lock

	mu      sync.Mutex // after queuePair.mu
	qp      *queuePair // of the requests below
	waiting int        // requests for the window that are not carried out
	posted  bool       // what the last request that was posted has made, or will make, of it
	revoked bool       // the peer has invalidated it
	closed  bool
	addr    rdma.RemoteAddr
}

const (
	windowChange = 1 << 32
	windowRefs   = windowChange - 1
)

var _ rdma.MemoryWindow = (*window)(nil)

// CreateMemoryWindow makes a window that lends nothing yet.
func (a *adapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	w := &window{a: a, idle: make(chan struct{}, 1)}
	if err := a.dom.Add(soft.Windows, w, "create memory window"); err != nil {
		return nil, err
	}
	return w, nil
}

// RemoteAddr is that of the last bind that was posted.
func (w *window) RemoteAddr() rdma.RemoteAddr {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addr
}

// Close revokes the window at once, without waiting for its turn.
func (w *window) Close() error {
	w.mu.Lock()
	w.closed = true
	w.revokeLocked()
	w.mu.Unlock()
	w.a.dom.Remove(soft.Windows, w)
	return nil
}

// acquire takes a reference for the binding that change stands for; it fails if
// that is over.
func (w *window) acquire(change uint32) bool {
	if uint32(w.state.Add(1)>>32) == change {
		return true
	}
	w.release()
	return false
}

// release gives a reference back.
func (w *window) release() {
	if s := w.state.Add(^uint64(0)); s&windowRefs == 0 && s&windowChange == 0 {
		select {
		case w.idle <- struct{}{}:
		default:
		}
	}
}

// inForce tells whether the peer may use the window.
func (w *window) inForce() bool { return w.state.Load()&windowChange != 0 }

// revokeLocked ends the binding, if there is one, and waits until nobody touches
// the memory for its sake: one copy, or one system call that does not block.
//
// Source: [RFC 5042 §6.3.1]
func (w *window) revokeLocked() {
	if !w.inForce() {
		return
	}
	region := w.qp.windows.remove(w)
	for w.state.Load()&windowRefs != 0 {
		<-w.idle
	}
	region.unbind()
}

// bindLocked checks a request to bind and gives the window its new token; the
// caller holds the lock of the queue pair.
func (w *window) bindLocked(qp *queuePair, r *rdma.Request) (binding, rdma.Status) {
	m, ok := r.Region.(*region)
	access := rdma.Access(0)
	if r.Flags&rdma.FlagAllowRead != 0 {
		access |= rdma.AccessRemoteRead
	}
	if r.Flags&rdma.FlagAllowWrite != 0 {
		access |= rdma.AccessRemoteWrite
	}
	if !ok || m == nil || m.a != qp.a || access.Has(rdma.AccessLocalWrite) && !m.access.Has(rdma.AccessLocalWrite) ||
		r.Offset < 0 || r.Length < 0 || r.Offset > len(m.buf) || r.Length > len(m.buf)-r.Offset {
		return binding{}, rdma.StatusAccessViolation
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return binding{}, rdma.StatusInvalidHandle
	case w.posted && !w.revoked, w.waiting > 0 && w.qp != qp:
		return binding{}, rdma.StatusInvalidDeviceRequest
	case !m.bind():
		return binding{}, rdma.StatusAccessViolation
	}
	b := binding{
		region: m, buf: m.buf[r.Offset : r.Offset+r.Length], base: m.base + uint64(r.Offset),
		access: access, token: qp.windows.newToken(&qp.a.dom.Keys),
	}
	w.qp, w.posted, w.revoked = qp, true, false
	w.waiting++
	w.addr = rdma.RemoteAddr{Addr: b.base, Token: rdma.RemoteToken(b.token)}
	return b, rdma.StatusSuccess
}

// invalidateLocked checks a request to invalidate. A window that the peer has
// invalidated already may be invalidated again, as the program cannot know.
func (w *window) invalidateLocked(qp *queuePair) rdma.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return rdma.StatusInvalidHandle
	}
	if w.qp != qp || !w.posted {
		return rdma.StatusInvalidDeviceRequest
	}
	w.posted, w.revoked = false, false
	w.waiting++
	return rdma.StatusSuccess
}

// carryOut does what a request says.
func (w *window) carryOut(r *sendRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	r.carried = true
	switch {
	case r.op == rdma.OpInvalidate:
		w.revokeLocked()
	case w.closed:
		r.binding.region.unbind()
	default:
		w.qp.windows.insert(w, r.binding)
	}
}

// giveUp undoes what a request has done that will not be carried out.
func (w *window) giveUp(r *sendRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	w.posted = w.inForce()
	if r.op == rdma.OpBind {
		r.binding.region.unbind()
	}
}

// revoke ends a binding for the peer, or at the end of the connection.
func (w *window) revoke(token uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inForce() && w.cur.token == token {
		w.revokeLocked()
		w.revoked = true
	}
}

// windowTable holds the windows in force on one connection, found by token: a
// hash table whose hash is the token, which is random.
type windowTable struct {
	mu    sync.Mutex
	slots []*window // a power of two
	n     int
}

// firstWindows is how many slots the table begins with.
const firstWindows = 16

// newToken is a token of no other window here. Tokens of windows are odd, those
// of regions even.
//
// Source: [RFC 5042 §6.1.1]
func (t *windowTable) newToken(keys *soft.Keys) uint32 {
	for {
		token := uint32(keys.Uint64()) | 1
		t.mu.Lock()
		_, used := t.slotLocked(token)
		t.mu.Unlock()
		if !used {
			return token
		}
	}
}

// slotLocked is where a token is, or would be.
func (t *windowTable) slotLocked(token uint32) (int, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := len(t.slots) - 1
	i := int(token>>1) & mask
	for t.slots[i] != nil {
		if t.slots[i].cur.token == token {
			return i, true
		}
		i = (i + 1) & mask
	}
	return i, false
}

// insert puts a window in force.
func (t *windowTable) insert(w *window, b binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]*window, max(2*len(old), firstWindows))
		for _, o := range old {
			if o != nil {
				i, _ := t.slotLocked(o.cur.token)
				t.slots[i] = o
			}
		}
	}
	w.cur = b
	i, _ := t.slotLocked(b.token)
	t.slots[i] = w
	t.n++
	w.state.Add(windowChange)
}

// remove ends the force of a window and gives its region. The windows behind it
// that would not be found across the gap move up.
func (t *windowTable) remove(w *window) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	mask := len(t.slots) - 1
	gap, _ := t.slotLocked(w.cur.token)
	for i := (gap + 1) & mask; t.slots[i] != nil; i = (i + 1) & mask {
		home := int(t.slots[i].cur.token>>1) & mask
		if (i-home)&mask >= (i-gap)&mask {
			t.slots[gap], gap = t.slots[i], i
		}
	}
	t.slots[gap] = nil
	t.n--
	r := w.cur.region
	w.cur = binding{}
	w.state.Add(windowChange)
	return r
}

// find gives the window of a token with what it lends.
func (t *windowTable) find(token uint32) (*window, view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.slotLocked(token)
	if !ok {
		return nil, view{}
	}
	w := t.slots[i]
	return w, view{
		lease: lease{window: w, change: uint32(w.state.Load() >> 32)},
		buf:   w.cur.buf, base: w.cur.base, access: w.cur.access,
	}
}

// revokeAll ends the force of all windows, when the connection is over.
func (t *windowTable) revokeAll() {
	t.mu.Lock()
	var all []*window
	var tokens []uint32
	for _, w := range t.slots {
		if w != nil {
			all, tokens = append(all, w), append(tokens, w.cur.token)
		}
	}
	t.mu.Unlock()
	for i, w := range all {
		w.revoke(tokens[i])
	}
}

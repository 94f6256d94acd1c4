package iwarp

import (
	"context"
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// The state of a region counts the references, in its lower half, and the windows
// that are bound to it; regionClosed says that no more are given of either.
const (
	regionBound  = 1 << 32
	regionClosed = 1 << 62
)

// region is registered memory. Whoever touches its bytes holds a reference for
// just as long as that takes, and never while waiting for a peer.
//
// Source: [ND MemoryRegion], [RFC 5042 §6.3.1]
type region struct {
	a      *adapter
	buf    []byte
	access rdma.Access
	base   uint64 // what a peer calls the first byte
	token  uint32
	state  atomic.Int64
	idle   chan struct{}

	closing sync.Mutex
	closed  bool // Close is over
}

var _ rdma.MemoryRegion = (*region)(nil)

// RegisterMemory makes a region of any memory. Its address on the wire is
// random but for the offset in a page, which is that of the memory.
//
// Source: [OP-18], [RFC 5042 §6.1.1]
func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	const op = "register memory"
	switch {
	case ctx.Err() != nil:
		return nil, rdma.CanceledBy(ctx, "iwarp: "+op, "")
	case buf == nil, uint64(len(buf)) > soft.MaxRegistration:
		return nil, opError(op, "", rdma.StatusInvalidParameter, nil)
	case len(buf) == 0:
		return nil, opError(op, "", rdma.StatusInvalidBufferSize, nil)
	}
	r := &region{a: a, buf: buf, access: access, idle: make(chan struct{}, 1)}
	r.base = a.dom.Keys.Uint64()>>18<<12 | 1<<46 | pageOffset(buf)
	if err := a.dom.Add(soft.Regions, r, op); err != nil {
		return nil, err
	}
	a.table.insert(r, &a.dom.Keys)
	return r, nil
}

// Bytes is the memory.
func (r *region) Bytes() []byte { return r.buf }

// Access gives the rights.
func (r *region) Access() rdma.Access { return r.access }

// RemoteAddr is how a peer names the first byte.
func (r *region) RemoteAddr() rdma.RemoteAddr {
	return rdma.RemoteAddr{Addr: r.base, Token: rdma.RemoteToken(r.token)}
}

// Close makes the token invalid and waits until nobody touches the memory. While
// a window is bound it does nothing but say StatusDeviceBusy.
func (r *region) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed {
		return nil
	}
	for {
		s := r.state.Load()
		if s >= regionBound {
			return opError("close region", "", rdma.StatusDeviceBusy, nil)
		}
		if r.state.CompareAndSwap(s, s|regionClosed) {
			break
		}
	}
	r.a.table.remove(r)
	for r.state.Load() != regionClosed {
		<-r.idle
	}
	r.closed = true
	r.a.dom.Remove(soft.Regions, r)
	return nil
}

// acquire takes a reference; it fails once the region is closed.
func (r *region) acquire() bool {
	if r.state.Add(1)&regionClosed == 0 {
		return true
	}
	r.release()
	return false
}

// release gives a reference back.
func (r *region) release() { r.leave(1) }

func (r *region) leave(n int64) {
	if r.state.Add(-n) == regionClosed {
		select {
		case r.idle <- struct{}{}:
		default:
		}
	}
}

// open tells whether the region is not closed yet.
func (r *region) open() bool { return r.state.Load()&regionClosed == 0 }

// bind notes a window that is bound to the region; it fails once that is closed.
func (r *region) bind() bool {
	if r.state.Add(regionBound)&regionClosed == 0 {
		return true
	}
	r.leave(regionBound)
	return false
}

// unbind takes that back.
func (r *region) unbind() { r.leave(regionBound) }

// retiredTokens is how many tokens stay out of use after their regions' end.
const retiredTokens = 4096

// regionTable finds regions by token.
type regionTable struct {
	mu      sync.RWMutex
	regions map[uint32]*region // nil for a retired token
	retired []uint32           // a ring once it is full
	next    int
}

func (t *regionTable) init() { t.regions = make(map[uint32]*region) }

// insert gives r a token that is not in use and was not for long.
func (t *regionTable) insert(r *region, keys *soft.Keys) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		r.token = uint32(keys.Uint64()) &^ 1 // odd ones are for windows
		if _, used := t.regions[r.token]; !used && r.token != 0 {
			t.regions[r.token] = r
			return
		}
	}
}

// remove retires the token of r and frees the one that was retired first.
func (t *regionTable) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions[r.token] = nil
	if len(t.retired) < retiredTokens {
		t.retired = append(t.retired, r.token)
		return
	}
	delete(t.regions, t.retired[t.next])
	t.retired[t.next] = r.token
	t.next = (t.next + 1) % retiredTokens
}

// find gives the region of a token, or nil.
func (t *regionTable) find(token uint32) *region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.regions[token]
}

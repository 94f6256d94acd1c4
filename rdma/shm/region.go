//go:build linux

package shm

import (
	"context"
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// regionClosed in a region's state says that no more references are given.
const regionClosed = 1 << 62

// region is registered memory. Whoever in this process touches its bytes holds a
// reference for just as long as that takes, and never while waiting for a peer.
// The peer of one connection may besides be allowed to write it directly.
//
// Source: [ND MemoryRegion]
type region struct {
	a      *adapter
	buf    []byte
	access rdma.Access
	base   uint64  // what a peer calls the first byte
	mem    *memory // that it lies in, or nil
	off    int     // where there
	token  uint32
	state  atomic.Int64 // number of references, and regionClosed
	idle   chan struct{}
	once   sync.Once

	mu   sync.Mutex
	by   *conn // whose peer may write it directly
	slot int   // of that connection's table
}

var _ rdma.MemoryRegion = (*region)(nil)

// RegisterMemory makes a region of any memory. Its address on the wire is
// random but for the offset in a page, which is that of the memory.
//
// Source: [OP-18]
func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	const op = "register memory"
	switch {
	case ctx.Err() != nil:
		return nil, rdma.CanceledBy(ctx, "shm: "+op, "")
	case buf == nil, uint64(len(buf)) > soft.MaxRegistration:
		return nil, opError(op, "", rdma.StatusInvalidParameter, nil)
	case len(buf) == 0:
		return nil, opError(op, "", rdma.StatusInvalidBufferSize, nil)
	}
	r := &region{a: a, buf: buf, access: access, idle: make(chan struct{}, 1)}
	r.base = a.dom.Keys.Uint64()>>18<<12 | 1<<46 | pageOffset(buf)
	if r.mem, r.off = a.memoryOf(buf); r.mem != nil && (access.Has(rdma.AccessRemoteWrite) || access.Has(rdma.AccessRemoteRead)) {
		if err := r.mem.populate(); err != nil {
			return nil, opError(op, "", rdma.StatusInsufficientResources, err)
		}
	}
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

// Close makes the token invalid and waits until nobody touches the memory. A
// peer that does not stop in time, as it is frozen for instance, loses the
// memory: the pages of the region are replaced.
func (r *region) Close() error {
	r.once.Do(func() {
		r.a.table.remove(r)
		if r.state.Add(regionClosed) != regionClosed {
			<-r.idle
		}
		r.mu.Lock()
		by := r.by
		r.mu.Unlock()
		if by != nil && !by.revoke(r.slot) {
			if err := r.mem.replace(r.off, len(r.buf)); err != nil {
				r.a.p.cfg.Logger.Error("shm: a peer keeps a closed region", "peer", by.peerName, "err", err)
			}
		}
		r.a.dom.Remove(soft.Regions, r)
	})
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
func (r *region) release() {
	if r.state.Add(-1) == regionClosed {
		select {
		case r.idle <- struct{}{}:
		default:
		}
	}
}

// open tells whether the region is not closed yet.
func (r *region) open() bool { return r.state.Load()&regionClosed == 0 }

// has tells whether the n bytes that a peer calls to are in a region.
func (r *region) has(to, n uint64) bool {
	return inRange(to, n, r.base, uint64(len(r.buf)))
}

// inRange tells whether [to, to+n) lies within [base, base+size), none of which
// wraps around.
func inRange(to, n, base, size uint64) bool {
	return to >= base && to-base <= size && n <= size-(to-base)
}

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
		r.token = uint32(keys.Uint64())
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

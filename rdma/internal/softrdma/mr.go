package softrdma

import (
	"context"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// The state of a region: the number of references in the lower half, above it the number
// of binds that wait for their turn, and the two flags.
const (
	regionRefs   = 1<<32 - 1
	regionPin    = 1 << 32
	regionPins   = (1<<28 - 1) << 32
	regionBarred = 1 << 61 // no window can be bound
	regionClosed = 1 << 62 // no reference can be acquired
)

// Region is registered memory. Code of this process holds a reference while it accesses
// the bytes, and never while it waits for a peer.
//
// Source: [ND MemoryRegion], [RFC 5042 §6.3.3]
type Region struct {
	d        *Domain
	buf      []byte
	access   rdma.Access
	base     uint64 // the peer's address of the first byte
	token    uint32
	backing  Backing
	state    atomic.Int64
	idle     chan struct{}
	windowed atomic.Bool // a window was once bound to it
	cachedBy atomic.Pointer[Windows]

	closing sync.Mutex
	closed  bool // Close has finished
}

// Backing is a provider's knowledge of memory that peers can access by themselves.
type Backing interface {
	// Withdraw returns when no peer accesses the region any more, or with the reason why
	// a peer can still access it; the next Close then calls it again. Precondition: no
	// code of this process accesses the region.
	Withdraw(r *Region) error
}

var _ rdma.MemoryRegion = (*Region)(nil)

// RegisterMemory makes a region of any memory; backing may be nil. The address for peers
// is random, but keeps the offset of the memory in its page.
//
// Source: [OP-18], [RFC 5042 §6.1.1]
func (d *Domain) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access, backing Backing) (rdma.MemoryRegion, error) {
	const op = "register memory"
	switch {
	case ctx.Err() != nil:
		return nil, d.Canceled(ctx, op, "")
	case buf == nil, uint64(len(buf)) > MaxRegistration:
		return nil, d.Error(op, "", rdma.StatusInvalidParameter, nil)
	case len(buf) == 0:
		return nil, d.Error(op, "", rdma.StatusInvalidBufferSize, nil)
	}
	r := &Region{d: d, buf: buf, access: access, backing: backing, idle: make(chan struct{}, 1)}
	r.base = d.Keys.Uint64()>>18<<12 | 1<<46 | pageOffset(buf)
	if err := d.Add(Regions, r, op); err != nil {
		return nil, err
	}
	d.regions.insert(r)
	return r, nil
}

// RegionOf returns m if it is a region of this domain, else nil.
func (d *Domain) RegionOf(m rdma.MemoryRegion) *Region {
	if r, ok := m.(*Region); ok && r != nil && r.d == d {
		return r
	}
	return nil
}

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.buf }

// Access returns the rights.
func (r *Region) Access() rdma.Access { return r.access }

// Backing returns the backing that the region was registered with.
func (r *Region) Backing() Backing { return r.backing }

// RemoteAddr returns the peer's address of the first byte.
func (r *Region) RemoteAddr() rdma.RemoteAddr {
	return rdma.RemoteAddr{Addr: r.base, Token: rdma.RemoteToken(r.token)}
}

// Close invalidates the token and waits until the memory is no longer accessed. While a
// window is bound it fails with StatusDeviceBusy and changes nothing. It also returns
// StatusDeviceBusy while a peer can still access the memory, and may then be called
// again.
func (r *Region) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed {
		return nil
	}
	// A bind that misses regionBarred is found here.
	if r.state.Or(regionBarred)&regionPins != 0 || r.windowed.Load() && r.d.bound(r) {
		r.state.And(^regionBarred)
		return r.d.Error("close region", "", rdma.StatusDeviceBusy, nil)
	}
	if r.state.Or(regionClosed)&regionClosed == 0 {
		r.d.regions.remove(r)
	}
	if t := r.cachedBy.Load(); t != nil {
		t.uncache(r)
	}
	for r.state.Load()&regionRefs != 0 {
		<-r.idle
	}
	if r.backing != nil {
		if err := r.backing.Withdraw(r); err != nil {
			return r.d.Error("close region", "", rdma.StatusDeviceBusy, err)
		}
	}
	r.closed = true
	r.d.Remove(Regions, r)
	return nil
}

// Acquire takes a reference. It fails once the region is closed.
func (r *Region) Acquire() bool {
	if r.state.Add(1)&regionClosed == 0 {
		return true
	}
	r.Release()
	return false
}

// Release returns a reference.
func (r *Region) Release() {
	if s := r.state.Add(-1); s&regionClosed != 0 && s&regionRefs == 0 {
		select {
		case r.idle <- struct{}{}:
		default:
		}
	}
}

// Open reports whether the region is not closed yet.
func (r *Region) Open() bool { return r.state.Load()&regionClosed == 0 }

// pin keeps the region open for a waiting bind. It fails once the region is closing.
func (r *Region) pin() bool {
	if r.state.Add(regionPin)&regionBarred == 0 {
		return true
	}
	r.unpin()
	return false
}

func (r *Region) unpin() { r.state.Add(-regionPin) }

// markWindowed records that a window is about to be bound. It fails once the region is
// closing.
func (r *Region) markWindowed() bool {
	if !r.windowed.Load() {
		r.windowed.Store(true)
	}
	return r.state.Load()&regionBarred == 0
}

// regionTable finds the regions of a domain by token.
type regionTable struct {
	mu    sync.Mutex
	table tokenTable[Region]
}

// insert gives r its token. Tokens of regions are even, tokens of windows odd.
func (t *regionTable) insert(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.reserve(func(r *Region) uint32 { return r.token })
	for {
		token := uint32(r.d.Keys.Uint64()) &^ 1
		if s := t.table.slot(token); token != 0 && s.Load() == nil {
			r.token = token
			s.Store(r)
			return
		}
	}
}

func (t *regionTable) remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table.slot(r.token).Store(nil)
	t.table.used--
}

// find returns the region of a token, or nil.
func (t *regionTable) find(token uint32) *Region {
	if s := t.table.slot(token); s != nil {
		if r := s.Load(); r != nil && r.token == token {
			return r
		}
	}
	return nil
}

// AllocSize rounds the size of an Alloc up to whole pages. 0 means that the size is not
// possible.
func AllocSize(size int) int {
	page := os.Getpagesize()
	if size <= 0 || uint64(size) > MaxRegistration || size > math.MaxInt-page {
		return 0
	}
	return (size + page - 1) / page * page
}

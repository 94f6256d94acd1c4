//go:build linux

package shm

import (
	"context"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// backing is where a region lies in memory that Alloc gave out. The peer of one
// connection may be allowed to reach it directly.
type backing struct {
	mem *memory
	off int

	mu   sync.Mutex
	by   *conn // whose peer may reach it directly
	slot int   // of that connection's table
}

// RegisterMemory makes a region of any memory. Memory that Alloc gave out is
// populated when a peer may reach it.
func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	m, off := a.memoryOf(buf)
	if m == nil {
		return a.dom.RegisterMemory(ctx, buf, access, nil)
	}
	if access.Has(rdma.AccessRemoteWrite) || access.Has(rdma.AccessRemoteRead) {
		if err := m.populate(); err != nil {
			return nil, opError("register memory", "", rdma.StatusInsufficientResources, err)
		}
	}
	return a.dom.RegisterMemory(ctx, buf, access, &backing{mem: m, off: off})
}

// Withdraw waits until the peer that may reach the region has stopped. A peer that
// does not in time, as it is frozen for instance, loses the memory: the pages of
// the region are replaced.
func (b *backing) Withdraw(r *soft.Region) {
	b.mu.Lock()
	by := b.by
	b.mu.Unlock()
	if by == nil || by.takeBack(b.slot) {
		return
	}
	b.mem.mu.Lock()
	b.mem.replaced = true
	b.mem.mu.Unlock()
	by.withdraw(b.mem)
	if err := b.mem.replace(b.off, len(r.Bytes())); err != nil {
		by.a.p.cfg.Logger.Error("shm: the pages of a closed region stay with its peer", "peer", by.peerName, "err", err)
	}
}

// inRange tells whether [to, to+n) lies within [base, base+size), none of which
// wraps around.
func inRange(to, n, base, size uint64) bool {
	return to >= base && to-base <= size && n <= size-(to-base)
}

//go:build linux

package shm

import (
	"context"
	"errors"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// backing is the position of a region in memory of Alloc. One connection may allow its
// peer to access it directly.
type backing struct {
	mem  *memory
	off  int
	size int

	mu   sync.Mutex
	by   *exports // of the connection whose peer may access it directly
	slot int      // of its table
}

// Errors of a Close.
var (
	errStays  = errors.New("a peer still uses the region")
	errShared = errors.New("another region shares its pages, so they cannot be replaced")
)

// RegisterMemory makes a region of any memory. Memory of Alloc is populated if the region
// has a remote right.
func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	m, off := a.memoryOf(buf)
	if m == nil {
		return a.Domain.RegisterMemory(ctx, buf, access, nil)
	}
	if access.Has(rdma.AccessRemoteWrite) || access.Has(rdma.AccessRemoteRead) {
		if err := m.populate(); err != nil {
			return nil, opError("register memory", "", rdma.StatusInsufficientResources, err)
		}
	}
	b := &backing{mem: m, off: off, size: len(buf)}
	m.enter(b)
	r, err := a.Domain.RegisterMemory(ctx, buf, access, b)
	if err != nil {
		m.leave(b)
	}
	return r, err
}

// Withdraw waits until the peer no longer uses the region. A peer that does not stop
// within Config.DrainTimeout, for instance because it is frozen, loses the memory: the
// pages of the region are replaced.
func (b *backing) Withdraw(*softrdma.Region) error {
	b.mu.Lock()
	by := b.by
	b.mu.Unlock()
	if by != nil && !by.takeBack(b.slot) {
		if err := b.retreat(by); err != nil {
			by.cfg.Logger.Error("shm: peer keeps access to a closed region", "peer", by.peerName, "err", err)
			return errors.Join(errStays, err)
		}
	}
	b.mem.leave(b)
	return nil
}

// retreat replaces the pages of the region. It first withdraws the whole memory, so that
// the peer has no other write in progress while the pages are copied.
func (b *backing) retreat(by *exports) error {
	b.mem.mu.Lock()
	b.mem.replaced = true // from now on no region of the memory is offered
	b.mem.mu.Unlock()
	if stopped := by.withdraw(b.mem, b.slot); stopped {
		return nil
	}
	return b.mem.replace(b)
}

// inRange reports whether [to, to+n) lies within [base, base+size), and neither range
// wraps around.
func inRange(to, n, base, size uint64) bool {
	return to >= base && to-base <= size && n <= size-(to-base)
}

//go:build linux

package shm

import (
	"context"
	"errors"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// backing is where a region lies in memory that Alloc gave out. The peer of one
// connection may be allowed to reach it directly.
type backing struct {
	mem  *memory
	off  int
	size int

	mu   sync.Mutex
	by   *conn // whose peer may reach it directly
	slot int   // of that connection's table
}

// Errors of a Close.
var (
	errStays  = errors.New("a peer that may write the region does not stop")
	errShared = errors.New("its pages are also another region's, and cannot be replaced")
)

// RegisterMemory makes a region of any memory. Memory that Alloc gave out is
// populated when a peer may reach it.
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

// Withdraw waits until the peer that may reach the region has stopped. A peer that
// does not in time, as it is frozen for instance, loses the memory: the pages of
// the region are replaced.
func (b *backing) Withdraw(*softrdma.Region) error {
	b.mu.Lock()
	by := b.by
	b.mu.Unlock()
	if by != nil && !by.takeBack(b.slot) {
		if err := b.retreat(by); err != nil {
			by.a.p.cfg.Logger.Error("shm: a closed region stays with its peer", "peer", by.peerName, "err", err)
			return errors.Join(errStays, err)
		}
	}
	b.mem.leave(b)
	return nil
}

// retreat replaces the pages of the region. Before that it takes all of the memory
// back, so that the peer is in the middle of no other write when they are copied.
func (b *backing) retreat(by *conn) error {
	b.mem.mu.Lock()
	b.mem.replaced = true // from here on nothing of it is offered
	b.mem.mu.Unlock()
	if stopped := by.withdraw(b.mem, b.slot); stopped {
		return nil
	}
	return b.mem.replace(b)
}

// inRange tells whether [to, to+n) lies within [base, base+size), none of which
// wraps around.
func inRange(to, n, base, size uint64) bool {
	return to >= base && to-base <= size && n <= size-(to-base)
}

//go:build linux

package shm

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// memory is memory of Alloc, in its own memory file.
type memory struct {
	a   *adapter
	buf []byte
	id  uint32 // identifies the memory on connections

	pages     sync.Mutex // held while pages are populated, replaced or unmapped; before mu
	populated bool       // guarded by pages

	mu       sync.Mutex
	fd       int
	owner    *exports              // of the only connection whose peer ever received the memory
	regions  map[*backing]struct{} // the open regions
	replaced bool                  // a part was replaced: the peer's mapping shows other memory
	closed   bool
}

// Alloc maps a sealed memory file of whole pages. The peer can directly write regions of
// it that have the right of remote write. The first write through a connection passes the
// whole memory to the peer of that connection, and to no other peer ever. The peer's
// process can read and write all of the memory until it ends. A program therefore keeps
// in it only data that this peer may see. The close of a region may replace its pages
// completely; the program does not write to these pages meanwhile.
//
// Pages are allocated on first use, or all together with the first region that has a
// remote right: a peer accepts no memory with holes.
func (a *adapter) Alloc(ctx context.Context, size int) (rdma.Memory, error) {
	const op = "allocate memory"
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	if size = softrdma.AllocSize(size); size == 0 {
		return nil, opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	fd, buf, err := ring.NewMemfd("shm-memory", size)
	if err != nil {
		return nil, opError(op, "", rdma.StatusInsufficientResources, err)
	}
	m := &memory{a: a, buf: buf, fd: fd, id: uint32(a.Domain.Keys.Uint64()), regions: make(map[*backing]struct{})}
	if err := a.Domain.Add(softrdma.Memories, m, op); err != nil {
		m.free()
		return nil, err
	}
	a.mu.Lock()
	a.memories = append(a.memories, m)
	a.mu.Unlock()
	return m, nil
}

// populate allocates all pages. It may take long, and delays only other calls of populate
// and replace.
func (m *memory) populate() error {
	m.pages.Lock()
	defer m.pages.Unlock()
	if m.populated || m.over() {
		return nil
	}
	err := ring.Populate(m.fd, m.buf)
	m.populated = err == nil
	return err
}

// over reports whether the memory is closed.
func (m *memory) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// enter records an open region.
func (m *memory) enter(b *backing) {
	m.pages.Lock() // replace relies on the set of regions
	defer m.pages.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regions[b] = struct{}{}
}

// leave removes a closed region.
func (m *memory) leave(b *backing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.regions, b)
}

// memoryOf finds the memory that contains buf, and the offset of buf.
func (a *adapter) memoryOf(buf []byte) (*memory, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.memories {
		if off := within(m.buf, buf); off >= 0 {
			return m, off
		}
	}
	return nil, 0
}

// Bytes returns the memory. Its length is the size, rounded up to whole pages.
func (m *memory) Bytes() []byte { return m.buf }

// Close unmaps the memory, and asks the peer to unmap it.
func (m *memory) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	owner := m.owner
	m.mu.Unlock()
	if owner != nil {
		owner.unshare(m)
	}
	m.a.mu.Lock()
	m.a.memories = slices.DeleteFunc(m.a.memories, func(o *memory) bool { return o == m })
	m.a.mu.Unlock()
	m.a.Domain.Remove(softrdma.Memories, m)
	return m.free()
}

// free releases the mapping and the descriptor.
func (m *memory) free() error {
	m.pages.Lock()
	defer m.pages.Unlock()
	err := unix.Munmap(m.buf)
	if e := unix.Close(m.fd); err == nil {
		err = e
	}
	return err
}

// span returns the range of whole pages that contains a region.
func (b *backing) span() (from, to int) {
	page := os.Getpagesize()
	return b.off / page * page, (b.off + b.size + page - 1) / page * page
}

// alone reports whether no other open region is on a region's pages.
func (m *memory) alone(b *backing) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to := b.span()
	for o := range m.regions {
		if at, end := o.span(); o != b && at < to && from < end {
			return false
		}
	}
	return true
}

// replace maps other pages with the same content over the pages of a closed region. A
// peer that has the memory, and may be writing it, then no longer writes into this
// process. Pages that another region shares are not replaced, because writes to that
// region may be in progress.
func (m *memory) replace(b *backing) error {
	m.pages.Lock()
	defer m.pages.Unlock()
	if m.over() {
		return nil
	}
	if !m.alone(b) {
		return errShared
	}
	from, to := b.span()
	fd, fresh, err := ring.NewMemfd("shm-memory", to-from)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = ring.Populate(fd, fresh)
	if err == nil {
		copy(fresh, m.buf[from:to])
	}
	if err := errors.Join(err, unix.Munmap(fresh)); err != nil {
		return err
	}
	return ring.MapOver(fd, m.buf[from:to])
}

package iwarp

import (
	"context"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// memory is memory of Alloc.
type memory struct {
	a    *adapter
	buf  []byte
	free func() error
	once sync.Once
	err  error
}

// Alloc maps whole pages outside the Go heap. With this provider their only advantage is
// that they do not burden the garbage collector.
func (a *adapter) Alloc(ctx context.Context, size int) (rdma.Memory, error) {
	const op = "allocate memory"
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	if size = softrdma.AllocSize(size); size == 0 {
		return nil, opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	buf, free, err := allocPages(size)
	if err != nil {
		return nil, opError(op, "", rdma.StatusInsufficientResources, err)
	}
	m := &memory{a: a, buf: buf, free: free}
	if err := a.Domain.Add(softrdma.Memories, m, op); err != nil {
		_ = free()
		return nil, err
	}
	return m, nil
}

// Bytes returns the memory. Its length is the size, rounded up to whole pages.
func (m *memory) Bytes() []byte { return m.buf }

// Close unmaps the memory.
func (m *memory) Close() error {
	m.once.Do(func() {
		m.a.Domain.Remove(softrdma.Memories, m)
		m.err = m.free()
	})
	return m.err
}

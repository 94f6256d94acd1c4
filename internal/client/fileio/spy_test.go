package fileio

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/rdmaconn"
	"lwio/rdma"
)

// spyProvider notes the memory of its adapters.
type spyProvider struct{ rdma.Provider }

func (p spyProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return spyAdapter{a}, nil
}

type spyAdapter struct{ rdma.Adapter }

// allocated are the newest *spyMemory by their first byte, and those of Buffers by the Buffer.
var allocated sync.Map

func (a spyAdapter) Alloc(ctx context.Context, n int) (rdma.Memory, error) {
	inner, err := a.Adapter.Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	m := &spyMemory{Memory: inner}
	allocated.Store(&m.Bytes()[0], m)
	return m, nil
}

type spyMemory struct {
	rdma.Memory
	closed atomic.Bool
}

func (m *spyMemory) Close() error {
	m.closed.Store(true)
	return m.Memory.Close()
}

// allocate makes a buffer of a client that closes with the test.
func allocate(t *testing.T, c *Client, size int) *rdmaconn.Buffer {
	t.Helper()
	b, err := c.Alloc(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := allocated.Load(&b.Bytes()[0]); ok {
		allocated.Store(b, m)
	}
	t.Cleanup(func() {
		b.Close()
		allocated.Delete(b)
	})
	return b
}

// isFreed reports whether the memory of a buffer, which was made over RDMA, was given back.
func isFreed(t *testing.T, b *rdmaconn.Buffer) bool {
	t.Helper()
	m, ok := allocated.Load(b)
	if !ok {
		t.Fatal("the buffer has ordinary memory")
	}
	return m.(*spyMemory).closed.Load()
}

// freed demands that no goroutine holds the memory of a buffer any more.
func freed(t *testing.T, b *rdmaconn.Buffer) {
	t.Helper()
	if !isFreed(t, b) {
		t.Error("a goroutine still holds the buffer")
	}
}

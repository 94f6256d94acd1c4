package rdmaconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// ErrBufferBusy says that the server may still use a Buffer: a read into it or a write from it was
// given up and not answered yet. [OP-113]
var ErrBufferBusy = errors.New("a read into the buffer or a write from it was given up, and may still go on")

// Buffer is the engine of an lwio.Buffer: memory that is registered once on each connection. Safe
// for concurrent use.
//
// Source: [OP-91], [OP-113]
type Buffer struct {
	bytes []byte
	table *BufferTable
	mem   rdma.Memory
	home  *Conn // with the adapter that mem belongs to; nil for ordinary memory

	closed  atomic.Bool
	once    sync.Once
	unknown atomic.Int64 // reads and writes that were given up and are not answered

	regions []*BufferRegion // guarded by table.mu
	users   int             // guarded by table.mu: the program until Close, and calls that hold it
}

// BufferRegion is the registration of a Buffer on a connection.
type BufferRegion struct {
	Region  rdma.MemoryRegion
	buffer  *Buffer
	conn    *Conn
	unknown atomic.Int64 // part of the buffer's unknown
}

// abandoned counts n requests more that were given up and are not answered.
func (r *BufferRegion) abandoned(n int64) {
	r.unknown.Add(n)
	r.buffer.unknown.Add(n)
}

// Bytes returns the memory of the Buffer. It is valid until Close.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Busy reports whether the server may still use the memory, because a request was given up.
func (b *Buffer) Busy() bool {
	return b.unknown.Load() > 0 || b.lostConn() != nil
}

// Close ends the registrations. The memory is free after the last hold.
func (b *Buffer) Close() error {
	b.once.Do(func() {
		b.closed.Store(true) // before a call can take the memory for ordinary memory
		b.table.remove(b)
		b.Release()
	})
	return nil
}

// Hold keeps the memory until Release, also if the Buffer is closed before. b may be nil, for
// ordinary memory.
//
// Errors: errBufferClosed, if the Buffer is closed already.
func (b *Buffer) Hold() error {
	if b == nil {
		return nil
	}
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if b.closed.Load() {
		return errBufferClosed
	}
	b.users++
	return nil
}

// Release ends a hold of the Buffer. The last one frees the memory. b may be nil, for ordinary
// memory.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	b.table.mu.Lock()
	b.users--
	last := b.users == 0
	b.table.mu.Unlock()
	if last && b.home != nil {
		b.mem.Close()
		b.home.buffers.done(b.home.Adapter)
	}
}

// Alloc makes a Buffer of memory of the connection's adapter, or, without a connection, of
// ordinary memory, and registers it on all connections.
func (t *BufferTable) Alloc(ctx context.Context, cn *Conn, size int) (*Buffer, error) {
	b := &Buffer{table: t, users: 1}
	if cn != nil && cn.Pin() == nil {
		defer cn.Unpin()
		mem, err := cn.Adapter.Alloc(ctx, size)
		if err != nil {
			return nil, err
		}
		b.home, b.mem, b.bytes = cn, mem, mem.Bytes()[:size:size]
		cn.buffers.keepAdapter()
	} else {
		b.bytes = make([]byte, size)
	}
	if err := t.add(ctx, b); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

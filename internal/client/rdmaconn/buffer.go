package rdmaconn

import (
	"context"
	"errors"

	"slices"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// ErrBufferBusy is a buffer that is still in use, because a read into it or a write from
// it was given up and not answered yet. [OP-113]
var ErrBufferBusy = errors.New("a read into the buffer or a write from it was given up, and may still go on")

// Buffer is the engine of an lwio.Buffer: memory that is registered once for each
// connection. Safe for concurrent use.
//
// Source: [OP-91], [OP-113]
type Buffer struct {
	bytes []byte
	Table *BufferTable

	// The connection whose adapter the memory is of; nil for ordinary memory.
	Home *Conn
	mem  rdma.Memory

	closed atomic.Bool
	Doubt  atomic.Int64 // reads and writes that were given up and are not answered
	once   sync.Once
	Leases []*BufferRegion // guarded by table.mu
	Users  int             // guarded by table.mu: the program until Close, and calls that hold it
}

// BufferRegion is a Buffer on a connection.
type BufferRegion struct {
	b     *Buffer
	conn  *Conn
	Mr    rdma.MemoryRegion
	doubt atomic.Int64 // of the buffer's, those on this connection
}

// Doubted counts n requests more that were given up.
func (l *BufferRegion) Doubted(n int64) {
	l.doubt.Add(n)
	l.b.Doubt.Add(n)
}

// Bytes is that of lwio.Buffer.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Busy is that of lwio.Buffer.
func (b *Buffer) Busy() bool {
	if b.Doubt.Load() > 0 {
		return true
	}
	b.Table.Mu.Lock()
	defer b.Table.Mu.Unlock()
	return slices.ContainsFunc(b.Leases, func(l *BufferRegion) bool { return l.conn.IsDown() && !l.conn.Life.isGone() })
}

// Close is that of lwio.Buffer.
func (b *Buffer) Close() error {
	b.once.Do(func() {
		b.closed.Store(true) // before the memory could be taken for ordinary memory
		b.Table.Remove(b)
		b.Release()
	})
	return nil
}

// Hold keeps the memory until Release, also if the buffer is closed before. b may be nil, for
// ordinary memory.
//
// Errors: errBufferClosed, if it is closed already.
func (b *Buffer) Hold() error {
	if b == nil {
		return nil
	}
	b.Table.Mu.Lock()
	defer b.Table.Mu.Unlock()
	if b.closed.Load() {
		return errBufferClosed
	}
	b.Users++
	return nil
}

// Release ends a hold of the buffer, and frees the memory after the last. b may be nil, for
// ordinary memory.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	b.Table.Mu.Lock()
	b.Users--
	last := b.Users == 0
	b.Table.Mu.Unlock()
	if last && b.Home != nil {
		b.mem.Close()
		b.Home.buffers.done(b.Home)
	}
}

// giveUp turns a request in the state from into an abandoned one, for which no call waits. Its
// buffer is busy before any other goroutine can see the new state.
//
// Source: [OP-113]
func (s *Request) giveUp(from RequestState) bool {
	l := s.Buffer
	if l != nil {
		l.Doubted(1)
	}
	if s.to(from, RequestAbandoned) {
		return true
	}
	if l != nil {
		l.Doubted(-1)
	}
	return false
}

// Alloc makes a Buffer of memory of the connection's adapter, or, without a connection, of
// ordinary memory, and registers it on all connections.
func (t *BufferTable) Alloc(ctx context.Context, cn *Conn, size int) (*Buffer, error) {
	b := &Buffer{Table: t, Users: 1}
	if cn != nil && cn.Enter() == nil {
		defer cn.Leave()
		mem, err := cn.Adapter.Alloc(ctx, size)
		if err != nil {
			return nil, err
		}
		b.Home, b.mem, b.bytes = cn, mem, mem.Bytes()[:size:size]
		cn.buffers.live()
	} else {
		b.bytes = make([]byte, size)
	}
	if err := t.add(ctx, b); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

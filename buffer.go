package lwio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// ErrInDoubt is a buffer that is still in use, because a read into it or a write from
// it was given up and not answered yet. [OP-113]
var ErrInDoubt = errors.New("a read into the buffer or a write from it was given up, and may still go on")

// Buffer is memory that is registered once for each connection. A read or a write of any
// part of it, by any call, goes there or comes from there without a copy and without
// registering anything.
//
// The server is lent all of a Buffer for as long as it is open: what it may not
// see or change does not belong there. Safe for concurrent use; whose bytes they are
// at a time is up to the caller.
//
// Source: [LWIO §Read], [OP-91], [OP-111], [OP-113]
type Buffer struct {
	bytes []byte
	table *bufferTable

	// The connection whose adapter the memory is of; nil for ordinary memory.
	home *conn
	mem  rdma.Memory

	closed atomic.Bool
	doubt  atomic.Int64 // reads and writes that were given up and are not answered
	once   sync.Once
	leases []*lease // guarded by table.mu
	users  int      // guarded by table.mu: the program until Close, and calls that hold it
}

// lease is a Buffer on a connection.
type lease struct {
	b     *Buffer
	conn  *conn
	mr    rdma.MemoryRegion
	doubt atomic.Int64 // of the buffer's, those on this connection
}

// doubted counts n requests more that were given up.
func (l *lease) doubted(n int64) {
	l.doubt.Add(n)
	l.b.doubt.Add(n)
}

// Alloc makes a Buffer of size bytes, 1 to 2^30, zeroed, in memory that suits the
// RDMA connection best; it is good for all files of the client. Close it after its
// last use, also after the client. A connection that takes the place of one that was lost
// can use it too, though perhaps not as well as one that was made on it.
//
// Errors: *Error: errors.ErrUnsupported for another size; ctx's error, if it has to wait for
// a connection; that of the system, if it has not so much memory.
func (c *Client) Alloc(ctx context.Context, size int) (*Buffer, error) {
	b, err := c.alloc(ctx, size)
	if err != nil {
		return nil, wrap("alloc", fmt.Sprintf("%d bytes", size), err)
	}
	return b, nil
}

func (c *Client) alloc(ctx context.Context, size int) (*Buffer, error) {
	if size <= 0 || size > maxBuffer {
		return nil, fmt.Errorf("a buffer has 1 to %d bytes: %w", maxBuffer, errors.ErrUnsupported)
	}
	b := &Buffer{table: &c.buffers, users: 1}
	cn, err := c.home(ctx)
	if err != nil {
		return nil, err
	}
	if cn != nil && cn.enter() == nil {
		defer cn.leave()
		if b.mem, err = cn.adapter.Alloc(ctx, size); err != nil {
			return nil, err
		}
		b.home, b.bytes = cn, b.mem.Bytes()[:size:size]
		cn.buffers.live()
	} else {
		b.bytes = make([]byte, size)
	}
	if err := c.buffers.add(ctx, b); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// bufferOf is the Buffer that p is part of, if it is not known, as of, already.
func (c *Client) bufferOf(p []byte, of *Buffer) *Buffer {
	if of == nil {
		of = c.buffers.of(p)
	}
	return of
}

// home is the connection for a new buffer, or nil. It waits for one to take the place of
// one that was lost.
func (c *Client) home(ctx context.Context) (*conn, error) {
	if cn := c.live(); cn != nil || len(c.rails) == 0 {
		return cn, nil
	}
	ctx, cancel := c.cfg.bounded(ctx)
	defer cancel()
	return c.leastBusy(0).get(ctx, false)
}

// maxBuffer bounds a Buffer, in bytes.
const maxBuffer = 1 << 30

// Bytes is the memory. It must not be used once Close was called.
func (b *Buffer) Bytes() []byte { return b.bytes }

// InDoubt reports whether the bytes may still change, or still be sent as they are when
// their turn comes, though no call is in flight: a read or a write was given up, or a
// connection broke and is not torn down yet. Ask after every error, before the memory
// is used again. Until the server has answered, or the connection is gone, reads into
// a buffer of which something was given up and writes from it fail with ErrInDoubt. Those
// over another connection than one that broke wait until that is torn down.
//
// Source: [OP-113]
func (b *Buffer) InDoubt() bool {
	if b.doubt.Load() > 0 {
		return true
	}
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return slices.ContainsFunc(b.leases, func(l *lease) bool { return l.conn.isDown() && !l.conn.isGone() })
}

// Close frees the memory, which nobody writes any more then. A call or an operation of a
// Batch that waits, for whatever it be, fails with fs.ErrClosed. What is in flight ends with the
// connection, and fails so too, a write perhaps with ErrUncertain alone. A call that goes over
// SMB, or a ReadVec or WriteVec, may go on to its end: then the memory is freed after that. A
// second Close does nothing.
func (b *Buffer) Close() error {
	b.once.Do(func() {
		b.closed.Store(true) // before the memory could be taken for ordinary memory
		b.table.remove(b)
		b.letGo()
	})
	return nil
}

// hold keeps the memory until letGo, though the buffer be closed before. b may be nil, for
// ordinary memory.
//
// Errors: errBufferClosed, if it is closed already.
func (b *Buffer) hold() error {
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

// letGo counts out who held the buffer, and frees the memory after the last. b may be nil, for
// ordinary memory.
func (b *Buffer) letGo() {
	if b == nil {
		return
	}
	b.table.mu.Lock()
	b.users--
	last := b.users == 0
	b.table.mu.Unlock()
	if last && b.home != nil {
		b.mem.Close()
		b.home.buffers.done(b.home)
	}
}

// giveUp makes a request that is in the state from one that nobody waits for. Its
// buffer is in doubt from before anybody else could know.
//
// Source: [OP-113]
func (s *slot) giveUp(from slotState) bool {
	l := s.lent
	if l != nil {
		l.doubted(1)
	}
	if s.to(from, slotAbandoned) {
		return true
	}
	if l != nil {
		l.doubted(-1)
	}
	return false
}

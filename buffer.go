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

// Buffer is memory that is registered once. A read or a write of any part of it,
// by any call, goes there or comes from there without a copy and without
// registering anything.
//
// The server is lent all of a Buffer for as long as it is open: what it may not
// see or change does not belong there. Safe for concurrent use; whose bytes they are
// at a time is up to the caller.
//
// Source: [LWIO §Read], [OP-91], [OP-113]
type Buffer struct {
	bytes []byte

	// Nil where there was no RDMA connection; then it is ordinary memory.
	conn *conn
	mem  rdma.Memory
	mr   rdma.MemoryRegion

	doubt atomic.Int64 // reads and writes that were given up and are not answered
	once  sync.Once
}

// Alloc makes a Buffer of at least size bytes, zeroed, in memory that suits the
// RDMA connection best; it is good for all files of the client. Close it after its
// last use, also after the client. When the connection is lost it is memory like any
// other.
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
	cn := c.live()
	if cn == nil || cn.enter() != nil {
		return &Buffer{bytes: make([]byte, size)}, nil
	}
	defer cn.leave()
	b := &Buffer{conn: cn}
	var err error
	if b.mem, err = cn.adapter.Alloc(ctx, size); err != nil {
		return nil, err
	}
	b.bytes = b.mem.Bytes()[:size:size]
	if b.mr, err = cn.adapter.RegisterMemory(ctx, b.bytes, rdma.AccessRemoteWrite); err != nil {
		b.mem.Close()
		return nil, err
	}
	cn.buffers.add(b)
	return b, nil
}

// maxBuffer bounds a Buffer, in bytes.
const maxBuffer = 1 << 30

// Bytes is the memory. It must not be used once Close was called.
func (b *Buffer) Bytes() []byte { return b.bytes }

// InDoubt reports whether the bytes may still change, or still be sent as they are when
// their turn comes, though no call is in flight: a read or a write was given up, or the
// connection broke and is not torn down yet. Ask after every error, before the memory
// is used again. Until the server has answered, or the connection is gone, reads into
// a buffer of which something was given up and writes from it fail with ErrInDoubt.
//
// Source: [OP-113]
func (b *Buffer) InDoubt() bool {
	return !b.ordinary() && (b.doubt.Load() > 0 || b.conn.isDown())
}

// ordinary reports whether nobody else can reach the memory any more.
func (b *Buffer) ordinary() bool {
	if b.conn == nil {
		return true
	}
	select {
	case <-b.conn.gone:
		return true
	default:
		return false
	}
}

// Close frees the memory, which nobody writes any more then. What is being read or
// written ends with the connection. A second Close does nothing.
func (b *Buffer) Close() error {
	b.once.Do(func() {
		if b.conn == nil {
			return
		}
		b.mr.Close()
		b.conn.buffers.remove(b)
		b.mem.Close()
		b.conn.buffers.done(b.conn)
	})
	return nil
}

// buffers are those of a connection. Its adapter, whose memory they are, lives as
// long as the last of them.
type buffers struct {
	list atomic.Pointer[[]*Buffer] // replaced as a whole

	mu   sync.Mutex
	open int  // buffers that are not closed
	over bool // the connection is torn down
}

func (k *buffers) add(b *Buffer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open++
	list := append(slices.Clone(k.all()), b)
	k.list.Store(&list)
}

func (k *buffers) remove(b *Buffer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(k.all()), func(o *Buffer) bool { return o == b })
	k.list.Store(&list)
}

func (k *buffers) all() []*Buffer {
	if list := k.list.Load(); list != nil {
		return *list
	}
	return nil
}

// done counts a buffer out, and closes the adapter after the last.
func (k *buffers) done(c *conn) {
	k.mu.Lock()
	k.open--
	last := k.over && k.open == 0
	k.mu.Unlock()
	if last {
		c.adapter.Close()
	}
}

// tearDown takes the buffers back from the server, and closes the adapter if there
// are none.
func (k *buffers) tearDown(c *conn) {
	for _, b := range k.all() {
		b.mr.Close()
	}
	k.mu.Lock()
	k.over = true
	last := k.open == 0
	k.mu.Unlock()
	if last {
		c.adapter.Close()
	}
}

// find gives the buffer that p is a part of and where it begins there, or nil.
func (k *buffers) find(p []byte) (*Buffer, int, error) {
	for _, b := range k.all() {
		if at := within(b.bytes, p); at >= 0 {
			if b.doubt.Load() > 0 {
				return nil, 0, ErrInDoubt
			}
			return b, at, nil
		}
	}
	return nil, 0, nil
}

// takenBack waits until a lost connection that p was lent on, as part of a Buffer, is
// torn down, and nobody but this process can write to it any more. It fails with
// ErrInDoubt if the buffer is in doubt on the connection that there is.
//
// Source: [OP-113]
func (c *Client) takenBack(ctx context.Context, p []byte) error {
	if cn := c.live(); cn != nil {
		if _, _, err := cn.buffers.find(p); err != nil {
			return err
		}
	}
	c.mu.Lock()
	lost := slices.Clone(c.lost)
	c.mu.Unlock()
	for _, cn := range lost {
		if !slices.ContainsFunc(cn.buffers.all(), func(b *Buffer) bool { return within(b.bytes, p) >= 0 }) {
			continue
		}
		select {
		case <-cn.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// giveUp makes a request that is in the state from one that nobody waits for. Its
// buffer is in doubt from before anybody else could know.
//
// Source: [OP-113]
func (s *slot) giveUp(from slotState) bool {
	b := s.lent
	if b != nil {
		b.doubt.Add(1)
	}
	if s.to(from, slotAbandoned) {
		return true
	}
	if b != nil {
		b.doubt.Add(-1)
	}
	return false
}

package lwio

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// bufferTable has the buffers of a client, each of which is registered on every
// connection.
type bufferTable struct {
	open atomic.Pointer[[]*Buffer] // replaced as a whole, with mu held

	mu    sync.Mutex // guards what follows, and Buffer.leases and users
	conns []*conn    // that buffers are registered on
}

// all are the open buffers.
func (t *bufferTable) all() []*Buffer {
	if list := t.open.Load(); list != nil {
		return *list
	}
	return nil
}

// of is the open buffer that p is a part of, or nil for ordinary memory. It waits for nothing,
// so that a call can ask before it waits for the first time: once the buffer is closed there is
// other memory at that place, or none.
func (t *bufferTable) of(p []byte) *Buffer {
	for _, b := range t.all() {
		if within(b.bytes, p) >= 0 {
			return b
		}
	}
	return nil
}

// add registers a new buffer on all connections.
func (t *bufferTable) add(ctx context.Context, b *Buffer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append(slices.Clone(t.all()), b)
	t.open.Store(&list)
	for _, cn := range t.conns {
		if err := t.leaseLocked(ctx, b, cn); err != nil && !cn.isDown() {
			return err
		}
	}
	return nil
}

// lease registers all buffers on a new connection.
func (t *bufferTable) lease(ctx context.Context, cn *conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = append(slices.DeleteFunc(t.conns, (*conn).isGone), cn)
	for _, b := range t.all() {
		if err := t.leaseLocked(ctx, b, cn); err != nil {
			return err
		}
	}
	return nil
}

func (t *bufferTable) leaseLocked(ctx context.Context, b *Buffer, cn *conn) error {
	if err := cn.enter(); err != nil {
		return err
	}
	defer cn.leave()
	mr, err := cn.adapter.RegisterMemory(ctx, b.bytes, rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	l := &lease{b: b, conn: cn, mr: mr}
	b.leases = append(slices.DeleteFunc(b.leases, func(l *lease) bool { return l.conn.isGone() }), l)
	cn.buffers.add(l)
	return nil
}

// remove takes a buffer back from all connections.
func (t *bufferTable) remove(b *Buffer) {
	t.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(t.all()), func(o *Buffer) bool { return o == b })
	t.open.Store(&list)
	leases := b.leases
	t.mu.Unlock()
	for _, l := range leases {
		l.mr.Close()
		l.conn.buffers.remove(l)
	}
}

// reclaim holds the buffer for a call over SMB, and waits until lost connections that it was
// lent on are torn down, and nobody but this process can write to it any more. The caller
// lets go of it. b may be nil, for ordinary memory.
//
// Errors: ErrInDoubt, if it is in doubt on a connection that there is; errBufferClosed; ctx's.
//
// Source: [OP-113]
func (b *Buffer) reclaim(ctx context.Context) error {
	if err := b.hold(); err != nil || b == nil {
		return err
	}
	b.table.mu.Lock()
	doubt := slices.ContainsFunc(b.leases, func(l *lease) bool { return l.doubt.Load() > 0 && !l.conn.isDown() })
	b.table.mu.Unlock()
	err := ErrInDoubt
	if !doubt {
		err = b.takenBack(ctx, nil)
	}
	if err != nil {
		b.letGo()
	}
	return err
}

// hold adds to list the buffers that the segments of a call are parts of, and holds them: one
// after another that are the same but once.
//
// Errors: errBufferClosed, with none held.
func (t *bufferTable) hold(list []*Buffer, segs [][]byte) ([]*Buffer, error) {
	var last *Buffer
	for _, p := range segs {
		if last != nil && within(last.bytes, p) >= 0 {
			continue
		}
		if b := t.of(p); b != nil {
			last = b
			list = append(list, b)
		}
	}
	for i, b := range list { // not before all are found: this may wait
		if err := b.hold(); err != nil {
			letGo(list[:i])
			return nil, err
		}
	}
	return list, nil
}

// letGo counts out who held the buffers.
func letGo(list []*Buffer) {
	for _, b := range list {
		b.letGo()
	}
}

// takenBack waits until lost connections that the buffer was lent on are torn down, for a
// call on the connection c, or on none. It ends with c: those connections may have calls
// that wait for c.
//
// Errors: ctx's; that of c.
func (b *Buffer) takenBack(ctx context.Context, c *conn) error {
	var down <-chan struct{}
	if c != nil {
		down = c.down
	}
	for cn := b.haunt(); cn != nil; cn = b.haunt() {
		select {
		case <-cn.gone:
		case <-down:
			return c.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// haunt is a connection that is lost, and may still reach the buffer; nil if there is none.
func (b *Buffer) haunt() *conn {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	for _, l := range b.leases {
		if l.conn.isDown() && !l.conn.isGone() {
			return l.conn
		}
	}
	return nil
}

// lease gives the buffer that p is a part of and where it begins there, or nil, once no
// lost connection of another rail can reach it any more. The caller uses the connection.
//
// of is the buffer if the operation has asked for it before it waited for something, or nil.
//
// Errors: ErrInDoubt; errBufferClosed; those of Buffer.takenBack.
//
// Source: [OP-113]
func (c *conn) lease(ctx context.Context, p []byte, of *Buffer) (*lease, int, error) {
	l, at, err := c.buffers.find(p)
	if err := of.gone(); err != nil { // if p is not found for that reason, this is so by now
		return nil, 0, err
	}
	if l == nil || c.rail.c.allUp() || l.b.haunt() == nil {
		return l, at, err
	}
	ctx, cancel := c.rail.c.cfg.bounded(ctx)
	defer cancel()
	if err := l.b.takenBack(ctx, c); err != nil {
		return nil, 0, err
	}
	return l, at, l.b.gone()
}

// errBufferClosed is an operation whose memory was part of a Buffer that is closed.
var errBufferClosed error = bufferClosedError{}

type bufferClosedError struct{}

// Error says so.
func (bufferClosedError) Error() string { return "the buffer was closed" }

// Is makes it fs.ErrClosed, whose text is about files.
func (bufferClosedError) Is(target error) bool { return target == fs.ErrClosed }

// gone is errBufferClosed once the buffer is closed. b may be nil, for ordinary memory.
func (b *Buffer) gone() error {
	if b != nil && b.closed.Load() {
		return errBufferClosed
	}
	return nil
}

// gone is that of the lease's buffer: a request that names what is taken back would end the
// connection for all. l may be nil, for ordinary memory.
func (l *lease) gone() error { return l.buffer().gone() }

// buffer is the Buffer of a lease, or nil without one.
func (l *lease) buffer() *Buffer {
	if l == nil {
		return nil
	}
	return l.b
}

// allUp reports whether every rail has a connection. Those before it are torn down then.
func (c *Client) allUp() bool {
	for _, r := range c.rails {
		if cn := r.cn.Load(); cn == nil || cn.isDown() {
			return false
		}
	}
	return true
}

// buffers are those of a connection. Its adapter lives as long as the last Buffer whose
// memory is of it.
type buffers struct {
	list atomic.Pointer[[]*lease] // replaced as a whole

	mu   sync.Mutex
	home int  // buffers that are of the adapter's memory and not closed
	over bool // the connection is torn down
}

// live counts in a buffer of the adapter's memory.
func (k *buffers) live() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.home++
}

func (k *buffers) add(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := append(slices.Clone(k.all()), l)
	k.list.Store(&list)
}

func (k *buffers) remove(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(k.all()), func(o *lease) bool { return o == l })
	k.list.Store(&list)
}

func (k *buffers) all() []*lease {
	if list := k.list.Load(); list != nil {
		return *list
	}
	return nil
}

// done counts a buffer out, and closes the adapter after the last.
func (k *buffers) done(c *conn) {
	k.mu.Lock()
	k.home--
	last := k.over && k.home == 0
	k.mu.Unlock()
	if last {
		c.adapter.Close()
	}
}

// tearDown takes the buffers back from the server, and closes the adapter if none is of
// its memory. What was in doubt on the connection is not any more.
func (k *buffers) tearDown(c *conn) {
	for _, l := range k.all() {
		l.mr.Close()
		l.b.doubt.Add(-l.doubt.Swap(0))
	}
	k.mu.Lock()
	k.over = true
	last := k.home == 0
	k.mu.Unlock()
	if last {
		c.adapter.Close()
	}
}

// find gives the buffer that p is a part of and where it begins there, or nil.
func (k *buffers) find(p []byte) (*lease, int, error) {
	for _, l := range k.all() {
		if at := within(l.b.bytes, p); at >= 0 {
			if l.b.doubt.Load() > 0 {
				return nil, 0, ErrInDoubt
			}
			return l, at, nil
		}
	}
	return nil, 0, nil
}

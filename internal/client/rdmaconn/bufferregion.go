package rdmaconn

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// BufferTable has the buffers of a client, each of which is registered on every
// connection.
type BufferTable struct {
	open atomic.Pointer[[]*Buffer] // replaced as a whole, with mu held

	Mu    sync.Mutex // guards the following fields, and Buffer.leases and users
	conns []*Conn    // that buffers are registered on
}

// all are the open buffers.
func (t *BufferTable) all() []*Buffer {
	if list := t.open.Load(); list != nil {
		return *list
	}
	return nil
}

// Of is the open buffer that p is a part of, or nil for ordinary memory. It waits for nothing,
// so that a call can ask before it waits for the first time: once the buffer is closed there is
// other memory at that place, or none.
func (t *BufferTable) Of(p []byte) *Buffer {
	for _, b := range t.all() {
		if within(b.bytes, p) >= 0 {
			return b
		}
	}
	return nil
}

// add registers a new buffer on all connections.
func (t *BufferTable) add(ctx context.Context, b *Buffer) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	list := append(slices.Clone(t.all()), b)
	t.open.Store(&list)
	for _, cn := range t.conns {
		if err := t.leaseLocked(ctx, b, cn); err != nil && !cn.IsDown() {
			return err
		}
	}
	return nil
}

// Lease registers all buffers on a new connection.
func (t *BufferTable) Lease(ctx context.Context, cn *Conn) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.conns = append(slices.DeleteFunc(t.conns, func(c *Conn) bool { return c.Life.isGone() }), cn)
	for _, b := range t.all() {
		if err := t.leaseLocked(ctx, b, cn); err != nil {
			return err
		}
	}
	return nil
}

func (t *BufferTable) leaseLocked(ctx context.Context, b *Buffer, cn *Conn) error {
	if err := cn.Enter(); err != nil {
		return err
	}
	defer cn.Leave()
	mr, err := cn.Adapter.RegisterMemory(ctx, b.bytes, rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	l := &BufferRegion{b: b, conn: cn, Mr: mr}
	b.Leases = append(slices.DeleteFunc(b.Leases, func(l *BufferRegion) bool { return l.conn.Life.isGone() }), l)
	cn.buffers.add(l)
	return nil
}

// Remove takes a buffer back from all connections.
func (t *BufferTable) Remove(b *Buffer) {
	t.Mu.Lock()
	list := slices.DeleteFunc(slices.Clone(t.all()), func(o *Buffer) bool { return o == b })
	t.open.Store(&list)
	leases := b.Leases
	t.Mu.Unlock()
	for _, l := range leases {
		l.Mr.Close()
		l.conn.buffers.Remove(l)
	}
}

// Reclaim holds the buffer for a call over SMB, and waits until lost connections that it was
// registered on are torn down, and only this process can write to it any more. The caller
// lets go of it. b may be nil, for ordinary memory.
//
// Errors: ErrBufferBusy, if it is busy on a live connection; errBufferClosed; ctx's.
//
// Source: [OP-113]
func (b *Buffer) Reclaim(ctx context.Context) error {
	if err := b.Hold(); err != nil || b == nil {
		return err
	}
	b.Table.Mu.Lock()
	doubt := slices.ContainsFunc(b.Leases, func(l *BufferRegion) bool { return l.doubt.Load() > 0 && !l.conn.IsDown() })
	b.Table.Mu.Unlock()
	err := ErrBufferBusy
	if !doubt {
		err = b.takenBack(ctx, nil)
	}
	if err != nil {
		b.Release()
	}
	return err
}

// Hold adds to list the buffers that the segments of a call are parts of, and holds them: one
// after another that are the same but once.
//
// Errors: errBufferClosed, with none held.
func (t *BufferTable) Hold(list []*Buffer, segs [][]byte) ([]*Buffer, error) {
	var last *Buffer
	for _, p := range segs {
		if last != nil && within(last.bytes, p) >= 0 {
			continue
		}
		if b := t.Of(p); b != nil {
			last = b
			list = append(list, b)
		}
	}
	for i, b := range list { // not before all are found: this may wait
		if err := b.Hold(); err != nil {
			ReleaseAll(list[:i])
			return nil, err
		}
	}
	return list, nil
}

// ReleaseAll ends a hold of the buffers.
func ReleaseAll(list []*Buffer) {
	for _, b := range list {
		b.Release()
	}
}

// takenBack waits until lost connections that the buffer is registered on are torn down, for a
// call on the connection c, or on none. It ends with c: those connections may have calls
// that wait for c.
//
// Errors: ctx's; that of c.
func (b *Buffer) takenBack(ctx context.Context, c *Conn) error {
	var down <-chan struct{}
	if c != nil {
		down = c.Life.Down
	}
	for cn := b.lostConn(); cn != nil; cn = b.lostConn() {
		select {
		case <-cn.Life.Gone:
		case <-down:
			return c.Life.Err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lostConn is a connection that is lost, and may still reach the buffer; nil if there is none.
func (b *Buffer) lostConn() *Conn {
	b.Table.Mu.Lock()
	defer b.Table.Mu.Unlock()
	for _, l := range b.Leases {
		if l.conn.IsDown() && !l.conn.Life.isGone() {
			return l.conn
		}
	}
	return nil
}

// Lease gives the buffer that p is a part of and where it begins there, or nil, once no
// lost connection of another path can reach it any more. The caller uses the connection.
//
// of is the buffer if the operation has asked for it before it waited for something, or nil.
//
// Errors: ErrBufferBusy; errBufferClosed; those of Buffer.takenBack.
//
// Source: [OP-113]
func (c *Conn) Lease(ctx context.Context, p []byte, of *Buffer) (*BufferRegion, int, error) {
	l, at, err := c.buffers.find(p)
	if err := of.Gone(); err != nil { // if p is not found for that reason, this is so by now
		return nil, 0, err
	}
	if l == nil || c.Owner.AllUp() || l.b.lostConn() == nil {
		return l, at, err
	}
	ctx, cancel := c.Owner.Bounded(ctx)
	defer cancel()
	if err := l.b.takenBack(ctx, c); err != nil {
		return nil, 0, err
	}
	return l, at, l.b.Gone()
}

// errBufferClosed is an operation whose memory was part of a Buffer that is closed.
var errBufferClosed error = bufferClosedError{}

type bufferClosedError struct{}

// Error says so.
func (bufferClosedError) Error() string { return "the buffer was closed" }

// Is makes it fs.ErrClosed, whose text is about files.
func (bufferClosedError) Is(target error) bool { return target == fs.ErrClosed }

// Gone is errBufferClosed once the buffer is closed. b may be nil, for ordinary memory.
func (b *Buffer) Gone() error {
	if b != nil && b.closed.Load() {
		return errBufferClosed
	}
	return nil
}

// buffers are those of a connection. Its adapter lives as long as the last Buffer whose
// memory is of it.
type buffers struct {
	list atomic.Pointer[[]*BufferRegion] // replaced as a whole

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

func (k *buffers) add(l *BufferRegion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := append(slices.Clone(k.all()), l)
	k.list.Store(&list)
}

func (k *buffers) Remove(l *BufferRegion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(k.all()), func(o *BufferRegion) bool { return o == l })
	k.list.Store(&list)
}

func (k *buffers) all() []*BufferRegion {
	if list := k.list.Load(); list != nil {
		return *list
	}
	return nil
}

// done counts a buffer out, and closes the adapter after the last.
func (k *buffers) done(c *Conn) {
	k.mu.Lock()
	k.home--
	last := k.over && k.home == 0
	k.mu.Unlock()
	if last {
		c.Adapter.Close()
	}
}

// tearDown takes the buffers back from the server, and closes the adapter if none is of
// its memory. Its requests do not keep buffers busy any more.
func (k *buffers) tearDown(c *Conn) {
	for _, l := range k.all() {
		l.Mr.Close()
		l.b.Doubt.Add(-l.doubt.Swap(0))
	}
	k.mu.Lock()
	k.over = true
	last := k.home == 0
	k.mu.Unlock()
	if last {
		c.Adapter.Close()
	}
}

// find gives the buffer that p is a part of and where it begins there, or nil.
func (k *buffers) find(p []byte) (*BufferRegion, int, error) {
	for _, l := range k.all() {
		if at := within(l.b.bytes, p); at >= 0 {
			if l.b.Doubt.Load() > 0 {
				return nil, 0, ErrBufferBusy
			}
			return l, at, nil
		}
	}
	return nil, 0, nil
}

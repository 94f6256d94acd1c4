package rdmaconn

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// BufferTable has the Buffers of a client. Each is registered on every connection. Safe for
// concurrent use.
type BufferTable struct {
	open atomic.Pointer[[]*Buffer] // replaced as a whole, with mu held

	mu    sync.Mutex // guards the following fields, and Buffer.regions and users
	conns []*Conn    // with registrations
}

// all returns the open Buffers.
func (t *BufferTable) all() []*Buffer {
	if list := t.open.Load(); list != nil {
		return *list
	}
	return nil
}

// Of returns the open Buffer that p is a part of, or nil for ordinary memory. It does not wait, so
// that a call can ask before it waits for the first time: once the Buffer is closed, there is other
// memory at that place, or none.
func (t *BufferTable) Of(p []byte) *Buffer {
	for _, b := range t.all() {
		if within(b.bytes, p) >= 0 {
			return b
		}
	}
	return nil
}

// add registers a new Buffer on all connections.
func (t *BufferTable) add(ctx context.Context, b *Buffer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append(slices.Clone(t.all()), b)
	t.open.Store(&list)
	for _, cn := range t.conns {
		if err := t.registerLocked(ctx, b, cn); err != nil && !cn.IsDown() {
			return err
		}
	}
	return nil
}

// Register registers all Buffers on a new connection.
func (t *BufferTable) Register(ctx context.Context, cn *Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = append(slices.DeleteFunc(t.conns, (*Conn).isGone), cn)
	for _, b := range t.all() {
		if err := t.registerLocked(ctx, b, cn); err != nil {
			return err
		}
	}
	return nil
}

func (t *BufferTable) registerLocked(ctx context.Context, b *Buffer, cn *Conn) error {
	if cn.Sealed() {
		return nil // its parts are registered for a request: a Buffer would be open to the network for long
	}
	if err := cn.Pin(); err != nil {
		return err
	}
	defer cn.Unpin()
	mr, err := cn.Adapter.RegisterMemory(ctx, b.bytes, rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	r := &BufferRegion{Region: mr, buffer: b, conn: cn}
	b.regions = append(slices.DeleteFunc(b.regions, func(r *BufferRegion) bool { return r.conn.isGone() }), r)
	cn.buffers.add(r)
	return nil
}

// remove ends the registrations of a Buffer on all connections.
func (t *BufferTable) remove(b *Buffer) {
	t.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(t.all()), func(o *Buffer) bool { return o == b })
	t.open.Store(&list)
	regions := b.regions
	t.mu.Unlock()
	for _, r := range regions {
		r.Region.Close()
		r.conn.buffers.remove(r)
	}
}

// Reclaim holds the Buffer for a call over SMB. It waits until the lost connections with a
// registration of the Buffer are torn down: then only this process writes to the Buffer. Release
// must follow. b may be nil, for ordinary memory.
//
// Errors: ErrBufferBusy, if the Buffer is busy on a live connection; errBufferClosed; ctx's.
//
// Source: [OP-113]
func (b *Buffer) Reclaim(ctx context.Context) error {
	if err := b.Hold(); err != nil || b == nil {
		return err
	}
	b.table.mu.Lock()
	busy := slices.ContainsFunc(b.regions, func(r *BufferRegion) bool { return r.unknown.Load() > 0 && !r.conn.IsDown() })
	b.table.mu.Unlock()
	err := ErrBufferBusy
	if !busy {
		err = b.takenBack(ctx, nil)
	}
	if err != nil {
		b.Release()
	}
	return err
}

// Hold adds the Buffers of the segments of a call to list, and holds them. Segments in a row of
// the same Buffer count once.
//
// Errors: errBufferClosed; then it holds none.
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
	for i, b := range list { // after all are found, as this may wait
		if err := b.Hold(); err != nil {
			ReleaseAll(list[:i])
			return nil, err
		}
	}
	return list, nil
}

// ReleaseAll ends the holds of Buffers.
func ReleaseAll(list []*Buffer) {
	for _, b := range list {
		b.Release()
	}
}

// takenBack waits until the lost connections with a registration of the Buffer are torn down. c is
// the connection of the caller, or nil. The wait ends with c, as the lost connections may have calls
// that wait for c.
//
// Errors: ctx's; the error of c.
func (b *Buffer) takenBack(ctx context.Context, c *Conn) error {
	var down <-chan struct{}
	if c != nil {
		down = c.down
	}
	for cn := b.lostConn(); cn != nil; cn = b.lostConn() {
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

// lostConn returns a lost connection that may still reach the Buffer, or nil.
func (b *Buffer) lostConn() *Conn {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	for _, r := range b.regions {
		if r.conn.IsDown() && !r.conn.isGone() {
			return r.conn
		}
	}
	return nil
}

// RegionOf returns the registration of the Buffer that p is a part of and where p begins there, or
// nil for ordinary memory. It waits until no lost connection of another path can reach the Buffer.
// of is the Buffer if the operation asked for it before it waited, or nil. Precondition: the caller
// has pinned the connection.
//
// Errors: ErrBufferBusy; errBufferClosed; the errors of Buffer.takenBack.
//
// Source: [OP-113]
func (c *Conn) RegionOf(ctx context.Context, p []byte, of *Buffer) (*BufferRegion, int, error) {
	r, at, err := c.buffers.find(p)
	if err := of.Gone(); err != nil { // a closed Buffer may be the cause that p was not found
		return nil, 0, err
	}
	if r == nil || c.Owner.AllUp() || r.buffer.lostConn() == nil {
		return r, at, err
	}
	ctx, cancel := c.Owner.Bounded(ctx)
	defer cancel()
	if err := r.buffer.takenBack(ctx, c); err != nil {
		return nil, 0, err
	}
	return r, at, r.buffer.Gone()
}

// errBufferClosed says that the memory of an operation was part of a Buffer that is closed.
var errBufferClosed error = bufferClosedError{}

type bufferClosedError struct{}

// Error returns the text without the words of fs.ErrClosed.
func (bufferClosedError) Error() string { return "the buffer was closed" }

// Is makes the error match fs.ErrClosed, whose text is about files.
func (bufferClosedError) Is(target error) bool { return target == fs.ErrClosed }

// Gone returns errBufferClosed once the Buffer is closed. b may be nil, for ordinary memory.
func (b *Buffer) Gone() error {
	if b != nil && b.closed.Load() {
		return errBufferClosed
	}
	return nil
}

// buffers are the registrations of Buffers on a connection. The adapter is open until the last
// Buffer with memory of the adapter is closed. Safe for concurrent use.
type buffers struct {
	list atomic.Pointer[[]*BufferRegion] // replaced as a whole

	mu   sync.Mutex // guards the following fields
	home int        // Buffers with memory of the adapter that are not closed
	over bool       // the connection is torn down
}

// keepAdapter counts a Buffer with memory of the adapter in.
func (b *buffers) keepAdapter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.home++
}

// done counts a Buffer with memory of the adapter out.
func (b *buffers) done(a rdma.Adapter) {
	b.mu.Lock()
	b.home--
	last := b.over && b.home == 0
	b.mu.Unlock()
	if last {
		a.Close()
	}
}

func (b *buffers) add(r *BufferRegion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := append(slices.Clone(b.all()), r)
	b.list.Store(&list)
}

func (b *buffers) remove(r *BufferRegion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(b.all()), func(o *BufferRegion) bool { return o == r })
	b.list.Store(&list)
}

func (b *buffers) all() []*BufferRegion {
	if list := b.list.Load(); list != nil {
		return *list
	}
	return nil
}

// tearDown ends the registrations, and closes the adapter unless a Buffer has its memory. The
// requests of the connection do not keep Buffers busy any more.
func (b *buffers) tearDown(a rdma.Adapter) {
	for _, r := range b.all() {
		r.Region.Close()
		r.buffer.unknown.Add(-r.unknown.Swap(0))
	}
	b.mu.Lock()
	b.over = true
	last := b.home == 0
	b.mu.Unlock()
	if last {
		a.Close()
	}
}

// find returns the registration of the Buffer that p is a part of and where p begins there, or
// nil.
//
// Errors: ErrBufferBusy.
func (b *buffers) find(p []byte) (*BufferRegion, int, error) {
	for _, r := range b.all() {
		if at := within(r.buffer.bytes, p); at >= 0 {
			if r.buffer.unknown.Load() > 0 {
				return nil, 0, ErrBufferBusy
			}
			return r, at, nil
		}
	}
	return nil, 0, nil
}

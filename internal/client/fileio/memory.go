package fileio

import (
	"context"
	"math"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/segments"
	"lwio/rdma"
)

// memory is the memory of an operation as a connection knows it. All fields are zero while no
// connection knows it.
type memory struct {
	mr     rdma.MemoryRegion      // registered for this operation alone
	shared rdma.MemoryRegion      // registered for several parts of one operation
	list   segmentList            // of a vectored operation
	leased *rdmaconn.BufferRegion // of the Buffer that the memory is part of
	at     int                    // where the memory begins in shared or leased
	on     *rdmaconn.Conn         // that has the registrations
}

// gone returns an error if a Buffer that o uses is closed.
func (o *operation) gone() error {
	for _, b := range o.held {
		if err := b.Gone(); err != nil {
			return err
		}
	}
	return o.buf.Gone()
}

// reach makes the memory of o known to the adapter of cn, unless its data is copied.
//
// Source: [OP-91]
func (o *operation) reach(ctx context.Context, cn *rdmaconn.Conn) (err error) {
	small, access := cn.Limits.CopyThreshold, rdma.AccessRemoteWrite
	switch {
	case o.write && cn.Sealed():
		small, access = math.MaxInt, 0 // sealing copies
	case o.write:
		small, access = rdmaconn.CopyWrite, 0
	case o.of != nil && o.of.segs == nil:
		small = 0 // a part of a read that is not small
	}
	if o.same && o.plain == nil && o.unacked == nil && cn.Limits.Same == 0 {
		o.fill()
	}
	switch {
	case o.plain != nil:
		if o.shared == nil && len(o.plain.bytes) > small {
			o.shared, err = o.plain.regionOn(ctx, cn)
		}
	case o.same:
	case o.segs != nil && !o.write && cn.Sealed():
		if o.mr == nil {
			o.mr, err = cn.Adapter.RegisterMemory(ctx, o.rest(cn), access)
		}
	case o.segs != nil:
		if o.list.parts == nil {
			if err = o.list.register(ctx, cn, o.segs, access); err == nil {
				o.leased = o.list.buffer
			}
		}
	case o.leased != nil || o.mr != nil || o.shared != nil:
	case o.buf != nil:
		if o.leased, o.at, err = cn.RegionOf(ctx, o.p, o.buf); err == nil && o.leased == nil && len(o.p) > small {
			o.mr, err = cn.Adapter.RegisterMemory(ctx, o.p, access)
		}
	case len(o.p) > small && o.of != nil && !cn.Sealed() && (o.of.on == nil || o.of.on == cn):
		err = o.share(ctx, cn, access)
	case len(o.p) > small:
		o.mr, err = cn.Adapter.RegisterMemory(ctx, o.p, access)
	}
	return err
}

// rest returns the memory of the next request of a vectored read that goes to one segment at a time.
func (o *operation) rest(cn *rdmaconn.Conn) []byte {
	return segments.Part(o.segs, o.done, o.limit(cn, o.done))[0]
}

// open closes the memory of a read of n bytes to the server, and opens the data in it. On a plain
// connection it does nothing.
//
// Errors: the error of the connection, which ends.
//
// Source: [OP-114b]
func (o *operation) open(n int) error {
	cn := o.on
	if !cn.Sealed() || n == 0 {
		return nil
	}
	p := o.p
	if o.segs != nil {
		p = segments.Part(o.segs, o.done, n)[0]
	} else {
		p = p[o.done:]
	}
	if o.mr != nil {
		if err := o.mr.Close(); err != nil {
			cn.Fail(err)
			return cn.Err()
		}
		o.mr = nil
	}
	return cn.Open(&o.Ticket, p[:n])
}

// share uses the registration of the operation that o is a part of. The first part makes it.
func (o *operation) share(ctx context.Context, cn *rdmaconn.Conn, access rdma.Access) (err error) {
	w := o.of
	if w.segs != nil {
		o.mr, err = cn.Adapter.RegisterMemory(ctx, o.p, access)
		return err
	}
	if w.mr == nil {
		if w.mr, err = cn.Adapter.RegisterMemory(ctx, w.p, access); err != nil {
			return err
		}
		w.on = cn
	}
	o.shared, o.at = w.mr, int(o.off-w.off)
	return nil
}

// takeBack ends the registrations, so that the memory can be registered on another connection. No
// request may be in flight.
func (m *memory) takeBack() {
	m.unregister()
	m.mr, m.shared, m.leased, m.on = nil, nil, nil, nil
}

// unregister closes the registrations that were made for the operation. The memory is not used
// after that.
func (m *memory) unregister() {
	if m.mr != nil {
		m.mr.Close()
	}
	if m.list.parts != nil {
		m.list.Close()
	}
}

// copies reports whether a write of n bytes is copied behind its header. from is the Buffer that the
// bytes are part of, or nil. A server that reaches the Buffer need not copy its data, and other
// servers get it by gathering, which costs no more than a copy.
func copies(n int, from *rdmaconn.BufferRegion) bool {
	if from != nil {
		return n <= rdmaconn.CopyBuffer
	}
	return n <= rdmaconn.CopyWrite
}

package server

import (
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// write answers a WRITE or a VEC_WRITE: a worker writes straight from the
// receive buffer. Only a collapsed one needs memory, to repeat its page in.
//
// Source: [LWIO §Write] [LWIO §Vectored Write] [OP-75] [OP-76] [OP-80] [LWIO claim 17]
func (c *conn) write(o *op) {
	status := ntstatus.Success
	collapsed := o.h.Flags&wire.FlagCollapse != 0
	if collapsed {
		status = ntstatus.Of(o.h.CheckCollapse(c.auth.peerPage, pageSize, uint32(o.file.open.Options())))
	}
	if status == ntstatus.Success && !o.file.canWrite {
		status = ntstatus.AccessDenied
	}
	if status != ntstatus.Success || o.h.Length == 0 {
		c.reply(o, status)
		return
	}
	o.queue = o.file.writing
	if collapsed {
		o.need = int(o.h.Length)
		if !c.fabric.buffers.take(o) {
			return
		}
	}
	c.jobs.Add(1)
	o.queue.push(o)
}

// goesOn tells whether next is a write of the same file that begins where o ends, and both
// write what was received, or lent.
func (o *op) goesOn(next *op) bool {
	return o.file == next.file && o.need == 0 && next.need == 0 && next.h.Offset == o.h.Offset+uint64(o.h.Length)
}

// run is what a worker writes by one call of the system.
type run struct {
	first, next *op // next is the one whose data comes next, or nil
	list        [runOps][]byte
	pieces      [][]byte // of list: the data so far
	written     int
	err         error
	use         func(p []byte) error // is add
}

var runs = sync.Pool{New: func() any {
	r := new(run)
	r.use = r.add
	return r
}}

// put gives the memory back, without what it refers to.
func (r *run) put() {
	*r = run{use: r.use}
	runs.Put(r)
}

// gather adds the data of o, and then that of next and of those behind it, while that is
// there which o was lent, and writes all. Of a loan that is over nothing is written.
func (r *run) gather(o, next *op) {
	r.next = next
	if o.remote == nil {
		_ = r.add(o.body())
	} else {
		_ = o.remote.View(r.use)
	}
}

// add adds data, and goes on with the next.
func (r *run) add(p []byte) error {
	r.pieces = append(r.pieces, p)
	if r.next != nil {
		r.gather(r.next, r.next.next)
		return nil
	}
	r.written, r.err = r.first.file.open.WriteVec(r.pieces, int64(r.first.h.Offset))
	return nil
}

// writeRun writes o and all that joined it, in a worker, by one call of the system: a file
// system works on whole large pages, so that a large write costs much less than the
// small ones that it came as.
//
// Source: [LWIO §Write] [OP-92f]
func (o *op) writeRun() {
	if o.joined.empty() {
		o.writeData()
		return
	}
	r := runs.Get().(*run)
	r.first, r.pieces = o, r.list[:0]
	r.gather(o, o.joined.head)
	n, err := r.written, r.err
	r.put()
	n = o.settle(n, err)
	for x := o.joined.head; x != nil; x = x.next {
		n = x.settle(n, err)
	}
}

// settle gives o its part of the n bytes that were written until err, and returns what is
// left. An operation that was not begun with is done by itself: why that is so may be the
// fault of another, as a lock is which is in the way of that.
func (o *op) settle(n int, err error) int {
	size := int(o.h.Length)
	switch {
	case n >= size:
		o.status, o.info = ntstatus.Success, o.h.Length
	case n > 0:
		o.status, o.info = final(err), uint32(n)
	default:
		o.writeData()
		return 0
	}
	o.count()
	return max(n-size, 0)
}

// writeData writes, in a worker. Information says how much was written, also
// when the rest was not.
//
// Source: [LWIO §Write] [OP-77] [OP-92f]
func (o *op) writeData() {
	switch {
	case o.remote != nil:
		if err := o.remote.View(o.use); err != nil {
			o.status, o.info, o.known = ntstatus.ConnectionDisconnected, 0, true
			o.c.cut(err) // what was not done is done when it is sent again
		}
	case o.need > 0:
		_ = o.writeFrom(tile(o.c.fabric.buffers.memory(o), o.body())) // never fails
	default:
		_ = o.writeFrom(o.body())
	}
	o.count()
}

// writeFrom writes p. What goes wrong is in the status, and not an error of who calls.
func (o *op) writeFrom(p []byte) error {
	n, err := o.file.open.WriteAt(p, int64(o.h.Offset))
	o.status, o.info = final(err), uint32(n)
	return nil
}

// borrow takes what a client lent: the data of a plain write stays where it is until a
// worker writes it to the file. All else is copied behind the bytes that came. What
// the client changes meanwhile is its own: nothing of data is ever looked at.
func (o *op) borrow(l rdma.RemoteData, here int) error {
	if h := &o.h; h.Opcode == wire.OpWrite && h.Flags&wire.FlagCollapse == 0 && here == wire.HeaderSize {
		o.remote = l
		o.c.engine.count.byReference.Add(1)
		return nil
	}
	defer l.Release()
	return l.View(func(p []byte) error {
		copy(o.body()[here-wire.HeaderSize:], p)
		return nil
	})
}

// tile fills dst with src over and over; the last time may be cut.
func tile(dst, src []byte) []byte {
	for n := copy(dst, src); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
	return dst
}

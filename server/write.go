package server

import (
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/internal/writelog"
	"lwio/rdma"
	"lwio/vfs"
)

// write answers a WRITE or a VEC_WRITE. A worker writes straight from the receive buffer. Only a
// collapsed write needs a block, which repeats its page.
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
		c.reply(o, o.refused(status))
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

// continuedBy reports whether next is a write of the same file that begins at the end of o, and
// neither write is collapsed or in doubt.
func (o *op) continuedBy(next *op) bool {
	if o.h.Opcode.FileCall() || next.h.Opcode.FileCall() {
		return false
	}
	return o.file == next.file && o.doubt == nil && next.doubt == nil && o.need == 0 && next.need == 0 && next.h.Offset == o.h.Offset+uint64(o.h.Length)
}

// writeRun is a run of contiguous writes. A worker performs it by one system call.
type writeRun struct {
	first, next *op // next is the operation whose data follows, or nil
	list        [runOps][]byte
	pieces      [][]byte // the first entries of list: the data so far
	written     int
	err         error
	use         func(p []byte) error // add
}

var writeRuns = sync.Pool{New: func() any {
	r := new(writeRun)
	r.use = r.add
	return r
}}

// put clears the references of r and returns it to the pool.
func (r *writeRun) put() {
	*r = writeRun{use: r.use}
	writeRuns.Put(r)
}

// gather adds the data of o, of next, and of the operations behind next, and writes all of it. The
// calls are nested, because remote data is valid only during a call of View. If the data of one
// operation is no longer valid, gather writes nothing.
func (r *writeRun) gather(o, next *op) {
	r.next = next
	if o.remote == nil {
		_ = r.add(o.body())
	} else {
		_ = o.remote.View(r.use)
	}
}

// add adds data and continues with the next operation. After the last one it writes.
func (r *writeRun) add(p []byte) error {
	r.pieces = append(r.pieces, p)
	if r.next != nil {
		r.gather(r.next, r.next.next)
		return nil
	}
	r.written, r.err = r.first.file.open.WriteVecBegun(r.pieces, int64(r.first.h.Offset))
	return nil
}

// writeJoined writes o and all operations that joined it, by one system call. A worker calls it. A
// file system works on whole large pages, so one large write costs much less than many small ones.
//
// Source: [LWIO §Write] [OP-92f]
func (o *op) writeJoined() {
	if o.joined.empty() {
		o.writeData()
		return
	}
	size := 0
	for x := o; x != nil; x = o.after(x) {
		size += int(x.h.Length)
	}
	x := o
	if o.mayBegin(size) {
		x = o.writeRun(size)
	}
	for ; x != nil; x = o.after(x) {
		x.writeData()
	}
}

// writeRun writes the run of o, of so many bytes, by one system call. It returns the first operation of which nothing was
// written, or nil.
func (o *op) writeRun(size int) (x *op) {
	r := writeRuns.Get().(*writeRun)
	r.first, r.pieces = o, r.list[:0]
	for x := o; x != nil; x = o.after(x) {
		x.begin()
	}
	w := o.file.open.BeginWrite(r, int64(o.h.Offset), size)
	r.gather(o, o.joined.head)
	x = o
	for left := r.written; left > 0; x = o.after(x) {
		left = x.assign(left, r.err)
	}
	o.file.open.EndWrite(w)
	r.put()
	return x
}

// after returns the operation of the run of o that follows x, or nil.
func (o *op) after(x *op) *op {
	if x == o {
		return o.joined.head
	}
	return x.next
}

// assign gives o its part of the n bytes that were written before err, which is not 0, and returns the other bytes.
// An operation without a written byte is performed by itself, because the error may belong to
// another operation. An example is a lock that conflicts with a later write of the run.
func (o *op) assign(n int, err error) int {
	size := int(o.h.Length)
	if n >= size {
		o.status, o.info = ntstatus.Success, o.h.Length
	} else {
		o.status, o.info = final(err), uint32(n)
	}
	o.end()
	o.count()
	return max(n-size, 0)
}

// writeData writes the data of o. A worker calls it. Information is the number of written bytes,
// also after an error.
//
// Source: [LWIO §Write] [OP-77] [OP-92f]
func (o *op) writeData() {
	defer o.count()
	if o.slot == writelog.None { // else it has begun in a run
		if !o.mayBegin(int(o.h.Length)) {
			return
		}
		o.begin()
	}
	var w vfs.Write
	if o.doubt == nil {
		w = o.file.open.BeginWrite(o, int64(o.h.Offset), int(o.h.Length))
	}
	switch {
	case o.remote != nil:
		if err := o.remote.View(o.use); err != nil {
			o.status, o.info, o.known = ntstatus.ConnectionDisconnected, 0, true
			o.c.cut(err) // the client replays the write on its next connection
		}
	case o.need > 0:
		_ = o.writeFrom(tile(o.c.fabric.buffers.memory(o), o.body())) // never fails
	default:
		_ = o.writeFrom(o.body())
	}
	o.end()
	o.file.open.EndWrite(w)
}

// writeFrom writes p. The status of o reports an error; the result is nil.
func (o *op) writeFrom(p []byte) error {
	if o.doubt != nil {
		o.info, o.status = o.doubt.redo(o, p)
		return nil
	}
	n, err := o.file.open.WriteAtBegun(p, int64(o.h.Offset))
	o.status, o.info = final(err), uint32(n)
	return nil
}

// takeRemote takes the part of a message that is by reference. The data of a plain write stays in the
// client's memory until a worker writes it to the file. Other data is copied behind the here bytes
// that were received. The client may change its memory meanwhile; the server does not interpret
// the data of a write.
func (o *op) takeRemote(l rdma.RemoteData, here int) error {
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

// tile fills dst with copies of src. The last copy may be cut.
func tile(dst, src []byte) []byte {
	for n := copy(dst, src); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
	return dst
}

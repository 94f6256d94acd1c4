package server

import (
	"errors"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sectorSize is the unit of the last region of an unbuffered vectored read, in bytes.
//
// Source: [OP-82]
const sectorSize = 512

// reader answers READs and VEC_READs. It belongs to the receive loop. There are five ways:
//
//  1. direct, single: the provider writes from the page cache into the client's memory. One post
//     sends the data and the answer of a single READ (postSingle).
//  2. direct: one post sends the data of several READs, and needs neither a buffer nor an initiator
//     entry (post).
//  3. direct, long: the provider writes a READ of longRead bytes or more from the file in pieces,
//     if the client's memory is not shared, and reports the end (postLong).
//  4. inline by a buffer: the loop copies data of the page cache into a block of the buffer pool.
//     RDMA writes send the block (readPart).
//  5. worker by a buffer: a worker reads the data that the page cache did not have (readRest).
//
// Ways 1 to 3 need a rdma.FileSource. They fall back to way 4 if the data is not in the page cache,
// or if the file is shorter than the READ. A VEC_READ that is longer than a block takes ways 4 and
// 5 in parts.
//
// Source: [LWIO §Read] [LWIO §Vectored Read]
type reader struct {
	c      *conn
	direct []*op           // READs that take way 1 or 2 and are not posted yet
	writes workRequests    // their RDMA writes, in the same order
	long   [1]rdma.Request // scratch of postLong
	probe  [1]byte         // scratch of cached
}

// read answers a READ, or a VEC_READ. The data of a VEC_READ goes to several regions.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-60] [OP-60b] [OP-83] [OP-92b] [LWIO claim 2]
func (r *reader) read(o *op) {
	status := ntstatus.Success
	if o.h.Opcode == wire.OpVecRead && r.c.sealing.on() {
		status = ntstatus.InvalidParameter
	} else if o.h.Opcode == wire.OpVecRead {
		sector := uint32(1)
		if o.file.unbuffered {
			sector = sectorSize
		}
		status = ntstatus.Of(o.h.CheckRegions(o.body(), sector))
	}
	if status == ntstatus.Success && !o.file.canRead {
		status = ntstatus.AccessDenied
	}
	if status != ntstatus.Success || o.h.Length == 0 {
		r.c.reply(o, status)
		return
	}
	if !r.addDirect(o) {
		r.readByBuffer(o)
	}
}

// readByBuffer reads into a block of the buffer pool, in parts of at most
// Limits.MaxRDMAWindowSize.
func (r *reader) readByBuffer(o *op) {
	o.queue, o.need = o.file.reading, min(int(o.h.Length), r.c.engine.limits.MaxRDMAWindowSize)
	r.readPart(o)
}

// readPart takes a block for o and fills it from the page cache. A worker reads the data that the
// page cache does not have.
func (r *reader) readPart(o *op) {
	c := r.c
	if o.block == none && !c.fabric.buffers.take(o) {
		return
	}
	p, off := o.part()
	n, ok, err := o.file.open.ReadCached(p, off)
	if !ok {
		o.data.inline = n
		c.jobs.Add(1)
		o.queue.push(o)
		return
	}
	if n < len(p) {
		o.file.size = 0 // the file has become shorter
	}
	o.finishRead(n, err)
	o.sealData()
	o.countInline()
	c.answer(o)
}

// nextPart continues a VEC_READ when a part has been sent.
func (r *reader) nextPart(o *op) {
	o.data.next()
	r.readPart(o)
}

// readRest reads the bytes of a part that the page cache did not have. A worker calls it.
func (o *op) readRest() {
	p, off := o.part()
	had := o.data.inline
	n, err := o.file.open.ReadAt(p[had:], off+int64(had))
	o.finishRead(had+n, err)
	o.sealData()
	if !o.data.more {
		o.count()
	}
}

// part returns the memory of the part of o and its offset in the file.
func (o *op) part() ([]byte, int64) {
	n := min(o.need, int(o.h.Length)-o.data.base)
	return o.c.fabric.buffers.memory(o)[:n], int64(o.h.Offset) + int64(o.data.base)
}

// finishRead turns the result of a part into an answer. The answer is short at the end of the file,
// and END_OF_FILE if the READ found no byte.
//
// Source: [OP-92a]
func (o *op) finishRead(n int, err error) {
	if errors.Is(err, ntstatus.EndOfFile) && o.data.base+n > 0 {
		err = nil
	}
	if o.status = final(err); err != nil {
		o.info = 0
	} else {
		o.info = uint32(o.data.base + n)
		o.data.set(n, o.need, int(o.h.Length))
	}
}

// target returns the remote address and the length of the next RDMA write of the part of o. The
// limits of the client and of the adapter bound the length. The address in the header of a
// VEC_READ is not used.
//
// Source: [OP-6] [OP-8] [OP-60] [OP-83] [OP-84]
func (o *op) target() (rdma.RemoteAddr, int) {
	n, at := min(o.data.left(), o.c.auth.peerWindow), o.data.at()
	if o.h.Opcode != wire.OpVecRead {
		return rdma.RemoteAddr{Addr: o.h.DataVa + uint64(at), Token: rdma.RemoteToken(o.h.DataMh)}, n
	}
	page := int(o.h.PageSize)
	r, in := wire.RegionAt(o.body(), at/page), at%page
	return rdma.RemoteAddr{Addr: r.DataVa + uint64(in), Token: rdma.RemoteToken(r.DataMh)}, min(n, page-in)
}

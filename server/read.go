package server

import (
	"errors"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sectorSize is what the last region of an unbuffered vectored read must be a
// multiple of, in bytes.
//
// Source: [OP-82]
const sectorSize = 512

// read answers a READ or a VEC_READ, whose data goes to many places. What is
// longer than a block, as only a VEC_READ can be, is done in stages.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-60] [OP-60b] [OP-83] [OP-92b] [LWIO claim 2]
func (c *conn) read(o *op) {
	status := ntstatus.Success
	if o.h.Opcode == wire.OpVecRead {
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
		c.reply(o, status)
		return
	}
	if !c.direct(o) {
		c.readByBuffer(o)
	}
}

// readByBuffer reads into memory of the server, which the RDMA writes start from.
func (c *conn) readByBuffer(o *op) {
	o.line, o.need = o.file.reading, min(int(o.h.Length), c.e.limits.MaxRdmaWindowSize)
	c.readStage(o)
}

// readStage gets o a block and fills it from the page cache; if that needs
// waiting, a worker goes on.
func (c *conn) readStage(o *op) {
	if o.block == none && !c.f.arena.take(o) {
		return
	}
	p, off := o.stage()
	n, ok, err := o.file.open.ReadCached(p, off)
	if !ok {
		o.done = n
		c.jobs.Add(1)
		o.line.push(o)
		return
	}
	if n < min(o.need, int(o.h.Length)-o.base) {
		o.file.size = 0 // it has become shorter
	}
	o.finishRead(n, err)
	c.countInline(o)
	c.answer(o)
}

// nextStage goes on with a VEC_READ when a stage has been sent.
func (c *conn) nextStage(o *op) {
	o.base += o.staged
	o.sent, o.staged, o.done, o.more = 0, 0, 0, false
	c.readStage(o)
}

// readRest reads what the page cache did not have, in a worker.
func (o *op) readRest() {
	p, off := o.stage()
	n, err := o.file.open.ReadAt(p[o.done:], off+int64(o.done))
	o.finishRead(o.done+n, err)
	if !o.more {
		o.count()
	}
}

// countInline counts a stage that the page cache answered: a READ, which has no other, when
// it is cheap.
func (c *conn) countInline(o *op) {
	if o.h.Opcode == wire.OpRead && o.status == ntstatus.Success {
		c.tally.add(c.e, c, o.file, o.info, 0)
		return
	}
	c.e.count.inline.Add(1)
	if !o.more {
		o.count()
	}
}

// stage is where the stage's bytes go in memory and where they are in the file.
func (o *op) stage() ([]byte, int64) {
	n := min(o.need, int(o.h.Length)-o.base)
	return o.c.f.arena.memory(o)[:n], int64(o.h.Offset) + int64(o.base)
}

// finishRead turns the outcome of a stage into an answer: short at the end of
// the file, END_OF_FILE only where nothing was left.
//
// Source: [OP-92a]
func (o *op) finishRead(n int, err error) {
	if errors.Is(err, ntstatus.EndOfFile) && o.base+n > 0 {
		err = nil
	}
	if o.status = final(err); err != nil {
		o.info = 0
	} else {
		o.info, o.staged = uint32(o.base+n), n
		o.more = n == o.need && o.base+n < int(o.h.Length)
	}
}

// target is where the next RDMA write of o's stage goes, and how long it may
// be: no longer than the client and the adapter take at a time. A VEC_READ is no READ,
// whose address its header has no use for.
//
// Source: [OP-6] [OP-8] [OP-60] [OP-83] [OP-84]
func (o *op) target() (rdma.RemoteAddr, int) {
	n := min(o.staged-o.sent, o.c.peerWindow)
	at := o.base + o.sent
	if o.h.Opcode != wire.OpVecRead {
		return rdma.RemoteAddr{Addr: o.h.DataVa + uint64(at), Token: rdma.RemoteToken(o.h.DataMh)}, n
	}
	page := int(o.h.PageSize)
	r, in := wire.RegionAt(o.body(), at/page), at%page
	return rdma.RemoteAddr{Addr: r.DataVa + uint64(in), Token: rdma.RemoteToken(r.DataMh)}, min(n, page-in)
}

// byImmediate reports whether o, a read that succeeded in full and whose data is sent
// from a buffer, is completed by immediate data of its last RDMA write instead of a
// status response: the client has to want a message, and to have named a cookie for it;
// 0 is none.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-85] [OP-86]
func (c *conn) byImmediate(o *op) bool {
	return c.f.immediate && o.h.Interrupt() && o.h.ImmediateCookie != 0 && o.status == ntstatus.Success && !o.more &&
		o.info == o.h.Length && (o.h.Opcode == wire.OpRead || o.h.Opcode == wire.OpVecRead)
}

package server

import (
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// write answers a WRITE or a VEC_WRITE: a worker writes straight from the
// receive buffer. Only a collapsed one needs memory, to repeat its page in.
//
// Source: [LWIO §Write] [LWIO §Vectored Write] [OP-75] [OP-76] [OP-80] [LWIO claim 17]
func (c *conn) write(o *op) {
	status := ntstatus.Success
	collapsed := o.h.Flags&wire.FlagCollapse != 0
	if collapsed {
		status = ntstatus.Of(o.h.CheckCollapse(c.peerPage, pageSize, uint32(o.file.open.Options())))
	}
	if status == ntstatus.Success && !o.file.canWrite {
		status = ntstatus.AccessDenied
	}
	if status != ntstatus.Success || o.h.Length == 0 {
		c.reply(o, status)
		return
	}
	o.line = o.file.writing
	c.jobs.Add(1)
	if collapsed {
		o.need = int(o.h.Length)
		if !c.f.arena.take(o) {
			return
		}
	}
	o.line.push(o)
}

// writeData writes, in a worker. Information says how much was written, also
// when the rest was not.
//
// Source: [LWIO §Write] [OP-77] [OP-92f]
func (o *op) writeData() {
	p := o.body()
	if o.need > 0 {
		p = tile(o.c.f.arena.memory(o), p)
	}
	n, err := o.file.open.WriteAt(p, int64(o.h.Offset))
	o.status, o.info = final(err), uint32(n)
	o.count()
}

// tile fills dst with src over and over; the last time may be cut.
func tile(dst, src []byte) []byte {
	for n := copy(dst, src); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
	return dst
}

package lwio

import (
	"context"

	"lwio/internal/epochs"
	"lwio/internal/wire"
	"lwio/rdma"
)

// writeVec writes segments to offset off, as many as fit with each message, and
// returns what writeAt returns.
//
// Source: [LWIO §Vectored Write], [LWIO claim 16], [OP-61], [OP-80], [OP-112]
func (c *conn) writeVec(ctx context.Context, fid uint16, segs [][]byte, off int64, of **Buffer, order *epochs.Epochs) (int, *debt, error) {
	if err := c.enter(); err != nil {
		return 0, nil, err
	}
	defer c.leave()
	l := lender{c: c}
	defer l.close()
	if err := l.lend(ctx, segs, 0); err != nil {
		return 0, nil, err
	}
	*of = l.buffer.buffer()
	w := writing{c: c, fid: fid, off: off, order: order, vec: &l, segs: segs, lent: l.buffer, of: *of}
	for _, p := range l.parts {
		w.total += p.n
	}
	done, owed, err := w.run(ctx)
	return done, owed, l.lost(err)
}

// gather adds parts of the next message behind the place of the header, and returns
// how many bytes they have.
func (l *lender) gather(sges []rdma.SGE, at *cursor, most int) ([]rdma.SGE, int) {
	n := 0
	for n < most && len(sges) < cap(sges) && l.more(*at) {
		g := l.next(at, most-n)
		sges = append(sges, g)
		n += g.Length
	}
	return sges, n
}

// vecHeader is the header of a VEC_WRITE of n bytes.
func vecHeader(fid uint16, off int64, n int) wire.Header {
	return wire.NewVecWrite(fid, uint64(off), uint32(n), protocolPage)
}

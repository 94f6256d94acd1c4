package lwio

import (
	"context"

	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// maxRegions is how many regions one VEC_READ names: as many as fit behind its
	// header.
	maxRegions = copyWrite / wire.RDMARegionSize
	// maxGather is how many parts one message is gathered from, its header included.
	maxGather = 16
)

// lender names segments to the server, or to the adapter: those of a Buffer as they
// are, others registered for as long as the lender is open.
type lender struct {
	c      *conn
	parts  []lentPart
	buffer *lease // the one that segments are parts of; those of others are registered
}

// lentPart is a segment: a part of a region.
type lentPart struct {
	mr    rdma.MemoryRegion
	own   bool
	at, n int
}

// lend adds the segments, empty ones excepted.
func (l *lender) lend(ctx context.Context, segs [][]byte, access rdma.Access) error {
	l.parts = make([]lentPart, 0, len(segs))
	for _, p := range segs {
		if len(p) == 0 {
			continue
		}
		b, at, err := l.c.lease(ctx, p, nil)
		part := lentPart{n: len(p)}
		switch {
		case err != nil:
			return err
		case b != nil && (l.buffer == nil || l.buffer == b):
			l.buffer, part.mr, part.at = b, b.mr, at
		default:
			part.own = true
			if part.mr, err = l.c.adapter.RegisterMemory(ctx, p, access); err != nil {
				return err
			}
		}
		l.parts = append(l.parts, part)
	}
	return nil
}

// close takes back what was registered.
func (l *lender) close() {
	for _, p := range l.parts {
		if p.own {
			p.mr.Close()
		}
	}
}

// cursor is a place in the segments of a lender.
type cursor struct {
	part, at int
}

// next is up to n bytes of one segment, and goes behind them.
func (l *lender) next(k *cursor, n int) rdma.SGE {
	p := &l.parts[k.part]
	n = min(n, p.n-k.at)
	g := rdma.SGE{Region: p.mr, Offset: p.at + k.at, Length: n}
	if k.at += n; k.at == p.n {
		k.part, k.at = k.part+1, 0
	}
	return g
}

func (l *lender) more(k cursor) bool { return k.part < len(l.parts) }

// readVec reads into segments of whole pages, from offset off. It ends at the first
// answer that is short, with what is there then and no error. of is as for readAt.
//
// Source: [LWIO §Vectored Read], [LWIO claim 16], [OP-60b], [OP-83]
func (c *conn) readVec(ctx context.Context, fid uint16, segs [][]byte, page int, off int64, of **Buffer) (done int, err error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	l := lender{c: c}
	defer l.close()
	if err := l.lend(ctx, segs, rdma.AccessRemoteWrite); err != nil {
		return 0, err
	}
	*of = l.buffer.buffer()
	most := min(maxRegions, c.peer.maxWrite/wire.RDMARegionSize)
	var at cursor
	var q pieces
	short := false
	for next := 0; (l.more(at) || q.count > 0) && !short; {
		for l.more(at) && q.count < maxPieces {
			s, e := c.acquire(ctx, q.count == 0)
			if s == nil || e != nil {
				err = e
				break
			}
			if err = l.buffer.gone(); err != nil {
				c.release(s)
				break
			}
			body, n := l.regions(s, &at, most, page)
			s.kind, s.want, s.lent = kindRead, uint32(n), l.buffer
			h := wire.NewVecRead(fid, uint64(off+int64(next)), uint32(n), uint16(len(body)/wire.RDMARegionSize), uint16(page))
			if err = c.post(s, &h, payload{copied: body}); err != nil {
				break
			}
			q.push(piece{s, next, n})
			next += n
		}
		if err != nil || q.count == 0 {
			break
		}
		p := q.pop()
		var ios wire.IOStatusBlock
		if ios, err = c.wait(ctx, p.s); err != nil {
			break
		}
		c.release(p.s)
		var n int
		n, err = readResult(ios)
		done += n
		if short = n < p.n; err != nil {
			break
		}
	}
	r := splitRead{reading: reading{c: c}, q: q}
	if e := r.drain(ctx); err == nil {
		err = e
	}
	return done, l.lost(err)
}

// lost is err, or errBufferClosed if the connection has ended and with it the buffer is
// closed: nothing goes on there.
func (l *lender) lost(err error) error {
	if e := l.buffer.buffer().gone(); e != nil && isLost(err) {
		return e
	}
	return err
}

// regions makes the body of a VEC_READ in the memory of slot s, and returns how many
// bytes of the file it is for.
func (l *lender) regions(s *slot, at *cursor, most, page int) (body []byte, n int) {
	body = s.send[wire.HeaderSize:wire.HeaderSize]
	for range most {
		if !l.more(*at) {
			break
		}
		g := l.next(at, page)
		to := g.Region.RemoteAddr()
		body = wire.RDMARegion{DataVa: to.Addr + uint64(g.Offset), DataMh: uint32(to.Token), Length: uint32(g.Length)}.AppendTo(body)
		n += g.Length
	}
	return body, n
}

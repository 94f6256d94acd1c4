package fileio

import (
	"context"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// maxRegions is how many regions one VEC_READ names: as many as fit behind its
	// header.
	maxRegions = rdmaconn.CopyWrite / wire.RDMARegionSize
)

// segmentList names segments to the server, or to the adapter. Segments of a Buffer are
// named as they are; others are registered until close.
type segmentList struct {
	parts  []segmentPart
	buffer *rdmaconn.BufferRegion // the Buffer of the segments; segments of other memory are registered
}

// segmentPart is a segment: a part of a region.
type segmentPart struct {
	mr    rdma.MemoryRegion
	own   bool // the region was registered for the list
	at, n int
}

// register adds the segments, empty ones excepted. After an error the list is as before.
func (l *segmentList) register(ctx context.Context, c *rdmaconn.Conn, segs [][]byte, access rdma.Access) (err error) {
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	l.parts = make([]segmentPart, 0, len(segs))
	for _, p := range segs {
		if len(p) == 0 {
			continue
		}
		b, at, err := c.RegionOf(ctx, p, nil)
		part := segmentPart{n: len(p)}
		switch {
		case err != nil:
			return err
		case b != nil && (l.buffer == nil || l.buffer == b):
			l.buffer, part.mr, part.at = b, b.Region, at
		default:
			part.own = true
			if part.mr, err = c.Adapter.RegisterMemory(ctx, p, access); err != nil {
				return err
			}
		}
		l.parts = append(l.parts, part)
	}
	return nil
}

// Close ends the registrations.
func (l *segmentList) Close() {
	for _, p := range l.parts {
		if p.own {
			p.mr.Close()
		}
	}
	l.parts, l.buffer = nil, nil
}

// each calls do for n bytes from byte at on, in pieces of up to most bytes that lie in one
// region.
func (l *segmentList) each(at, n, most int, do func(rdma.SGE)) {
	for i := range l.parts {
		p := &l.parts[i]
		for skip := min(at, p.n); skip < p.n && n > 0; {
			size := min(p.n-skip, n, most)
			do(rdma.SGE{Region: p.mr, Offset: p.at + skip, Length: size})
			skip, n = skip+size, n-size
		}
		at -= min(at, p.n)
	}
}

// byPages reports whether a vectored read asks for its bytes from at on by VEC_READ.
func (o *operation) byPages(at int) bool {
	return o.page > 0 && at%o.page == 0 && o.size-at >= o.f.sector()
}

// sector is the unit of a VEC_READ of the file, in bytes.
//
// Source: [OP-82]
func (f *File) sector() int {
	if f.options&smbshare.OptionUnbuffered != 0 {
		return 512
	}
	return 1
}

// vectored makes h and data the next request of o, whose memory are segments: one request for
// many, or, after a short answer, a READ of a part of one.
//
// Source: [LWIO §Vectored Read], [LWIO §Vectored Write], [LWIO claim 16], [OP-60b], [OP-80], [OP-83]
func (o *operation) vectored(s *rdmaconn.Request, h *wire.Header, data *rdmaconn.Payload) {
	off := o.off + int64(o.done)
	switch {
	case o.write:
		*h = wire.NewVecWrite(o.fid, uint64(off), uint32(o.n), rdmaconn.ProtocolPage)
		data.Gather = s.Gather()
		o.list.each(o.done, o.n, o.n, func(g rdma.SGE) { data.Gather = append(data.Gather, g) })
	case o.on.Sealed():
		to := o.mr.RemoteAddr()
		*h = wire.NewRead(o.fid, uint64(off), wire.RDMARegion{DataVa: to.Addr, DataMh: uint32(to.Token), Length: uint32(o.n)})
	case o.byPages(o.done):
		body := s.Body()
		o.list.each(o.done, o.n, o.page, func(g rdma.SGE) {
			to := g.Region.RemoteAddr()
			body = wire.RDMARegion{DataVa: to.Addr + uint64(g.Offset), DataMh: uint32(to.Token), Length: uint32(g.Length)}.AppendTo(body)
		})
		*h = wire.NewVecRead(o.fid, uint64(off), uint32(o.n), uint16(len(body)/wire.RDMARegionSize), uint16(o.page))
		data.Copied = body
	default:
		o.list.each(o.done, o.n, o.n, func(g rdma.SGE) {
			to := g.Region.RemoteAddr()
			*h = wire.NewRead(o.fid, uint64(off),
				wire.RDMARegion{DataVa: to.Addr + uint64(g.Offset), DataMh: uint32(to.Token), Length: uint32(o.n)})
		})
	}
}

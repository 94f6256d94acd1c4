package fault

import (
	"context"
	"errors"
	"io"

	"lwio/rdma"
)

// flip inverts a bit of p, counted modulo its length.
func flip(p []byte, bit uint64) {
	if len(p) > 0 {
		bit %= uint64(len(p)) * 8
		p[bit/8] ^= 1 << (bit % 8)
	}
}

// flipData gives a request a copy of its data with one bit inverted. If the copy needs a
// region, the request owns it.
func (q *queuePair) flipData(r *rdma.Request, p *posted, bit uint64) error {
	switch {
	case dataOf(r) == 0 || r.Op != rdma.OpSend && r.Op != rdma.OpWrite && r.Op != rdma.OpRead:
		return nil
	case r.Op == rdma.OpRead:
		p.sink, p.bit = append([]rdma.SGE(nil), r.SGL...), bit
		return nil
	case r.Flags&rdma.FlagInline != 0:
		r.Inline = append([]byte(nil), r.Inline...)
		flip(r.Inline, bit)
		return nil
	}
	data, err := copyOf(r, p)
	if err != nil {
		return err
	}
	flip(data, bit)
	m, err := q.a.inner.RegisterMemory(context.Background(), data, 0)
	if err != nil {
		return err
	}
	p.own = m
	r.File, r.Flags = nil, r.Flags&^rdma.FlagOnlyIfCached
	r.SGL = []rdma.SGE{{Region: m, Length: len(data)}}
	return nil
}

// copyOf reads the data of a request.
func copyOf(r *rdma.Request, p *posted) ([]byte, error) {
	if r.File != nil {
		data := make([]byte, r.FileLength)
		n, err := r.File.File().ReadAt(data, r.FileOffset)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		p.fromFile, p.bytes = true, n
		return data, nil
	}
	data := make([]byte, 0, lengthOf(r.SGL))
	for _, s := range r.SGL {
		mem := s.Region.Bytes()
		if s.Offset < 0 || s.Length < 0 || s.Offset > len(mem)-s.Length {
			return nil, &rdma.Error{Op: "fault: flip", Status: rdma.StatusAccessViolation}
		}
		data = append(data, mem[s.Offset:s.Offset+s.Length]...)
	}
	return data, nil
}

// flipSink inverts a bit of the data of a read.
func flipSink(sink []rdma.SGE, bit uint64) {
	bit %= uint64(lengthOf(sink)) * 8
	for _, s := range sink {
		if n := uint64(s.Length) * 8; bit >= n {
			bit -= n
			continue
		}
		flip(s.Region.Bytes()[s.Offset:s.Offset+s.Length], bit)
		return
	}
}

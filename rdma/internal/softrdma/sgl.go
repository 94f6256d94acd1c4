package softrdma

import "lwio/rdma"

// Piece is a checked entry of a scatter/gather list. Code that accesses Buf holds a
// reference to Region.
type Piece struct {
	Region *Region
	Buf    []byte
}

// CheckSGL checks a list of up to most entries and returns the number of bytes that it
// names. If access is not 0, each region must have one of its rights.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Receive]
func (d *Domain) CheckSGL(sgl []rdma.SGE, most int, access rdma.Access) (int, rdma.Status) {
	if len(sgl) > most {
		return 0, rdma.StatusDataOverrun
	}
	length := 0
	for i := range sgl {
		if sgl[i].Length > MaxTransfer-length {
			return 0, rdma.StatusBufferOverflow
		}
		length += max(sgl[i].Length, 0)
	}
	for i := range sgl {
		e := &sgl[i]
		r := d.RegionOf(e.Region)
		if r == nil || access != 0 && r.access&access == 0 || !r.Open() || !inside(e.Offset, e.Length, len(r.buf)) {
			return 0, rdma.StatusAccessViolation
		}
	}
	return length, rdma.StatusSuccess
}

// AppendPieces translates a checked list, without its empty entries.
func AppendPieces(ps []Piece, sgl []rdma.SGE) []Piece {
	for i := range sgl {
		if e := &sgl[i]; e.Length > 0 {
			r := e.Region.(*Region)
			ps = append(ps, Piece{r, r.buf[e.Offset : e.Offset+e.Length]})
		}
	}
	return ps
}

// inside reports whether [off, off+n) lies within size bytes.
func inside(off, n, size int) bool { return off >= 0 && n >= 0 && off <= size && n <= size-off }

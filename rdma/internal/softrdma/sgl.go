package softrdma

import "lwio/rdma"

// Piece is an entry of a scatter/gather list that was checked. Who touches Buf
// holds a reference to Region.
type Piece struct {
	Region *Region
	Buf    []byte
}

// CheckSGL checks a list of up to most entries, whose regions need one of the
// rights in access, if there is any in it, and tells how many bytes the list
// names.
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

// AppendPieces translates a list that was checked; empty entries are left out.
func AppendPieces(ps []Piece, sgl []rdma.SGE) []Piece {
	for i := range sgl {
		if e := &sgl[i]; e.Length > 0 {
			r := e.Region.(*Region)
			ps = append(ps, Piece{r, r.buf[e.Offset : e.Offset+e.Length]})
		}
	}
	return ps
}

// inside tells whether [off, off+n) lies within size bytes.
func inside(off, n, size int) bool { return off >= 0 && n >= 0 && off <= size && n <= size-off }

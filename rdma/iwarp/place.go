package iwarp

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// cursor is a place in the pieces of a request.
type cursor struct {
	piece, within int
	bytes         int // in all
}

// destination is the next stretch of memory that payload goes to.
func (x *receiver) destination() ([]byte, softrdma.Lease) {
	if x.seg.Opcode() == frame.OpWrite {
		return x.target, x.lease
	}
	pieces, at := x.scatter()
	p := &pieces[at.piece]
	return p.Buf[at.within:], softrdma.Lease{Region: p.Region}
}

// scatter is the list of pieces that payload goes to, and the place in it.
func (x *receiver) scatter() ([]softrdma.Piece, *cursor) {
	if x.answering() {
		return x.reading.request.Pieces, &x.readAt
	}
	return x.receive.Pieces, &x.at
}

// answering tells whether the frame answers a read or an atomic operation.
func (x *receiver) answering() bool {
	op := x.seg.Opcode()
	return op == frame.OpReadResponse || op == frame.OpAtomicResponse
}

// skip notes that n bytes of the current stretch are placed.
func (x *receiver) skip(n int) {
	x.left -= n
	if x.seg.Opcode() == frame.OpWrite {
		x.target = x.target[n:]
		return
	}
	pieces, at := x.scatter()
	at.bytes += n
	if at.within += n; at.within == len(pieces[at.piece].Buf) {
		at.piece, at.within = at.piece+1, 0
	}
}

// place puts payload where it belongs. Only what a Write brings may be polled for.
//
// Source: [OP-88]
func (x *receiver) place(payload []byte) error {
	for len(payload) > 0 {
		dst, l := x.destination()
		n := min(len(dst), len(payload))
		if !x.grip.take(&l) {
			return x.lostRegion()
		}
		if x.seg.Opcode().IsSend() {
			copy(dst[:n], payload)
		} else {
			softrdma.PlaceSoon(dst[:n], payload[:n], &x.fence)
		}
		x.grip.give(&l)
		x.skip(n)
		payload = payload[n:]
	}
	return nil
}

// lostRegion is the error for memory that was deregistered meanwhile.
func (x *receiver) lostRegion() error {
	if x.seg.Opcode() == frame.OpWrite {
		return x.violation(frame.FaultSTag)
	}
	v := x.violation(frame.FaultLocal)
	if x.answering() {
		v.reading = rdma.StatusAccessViolation
	} else {
		v.receive = rdma.StatusAccessViolation
	}
	return v
}

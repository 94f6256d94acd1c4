package iwarp

import (
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// cursor is a position in the pieces of a request.
type cursor struct {
	piece, within int
	bytes         int // placed bytes in all pieces
}

// advance moves the cursor by n bytes of the current piece.
func (c *cursor) advance(pieces []softrdma.Piece, n int) {
	c.bytes += n
	if c.within += n; c.within == len(pieces[c.piece].Buf) {
		c.piece, c.within = c.piece+1, 0
	}
}

// placement is the destination of arriving payload: target for a Write, else the pieces
// of a receive or of a read. A receive and a read may be in progress together.
type placement struct {
	grant   softrdma.Grant // of target
	target  []byte
	receive *softrdma.Receive
	at      cursor // in receive
	reading *readOut
	readAt  cursor      // in reading
	regions regionCache // in use while frames are handled
	fence   atomic.Uint32
}

// answers reports whether a message answers a read or an atomic operation.
func answers(op frame.Opcode) bool {
	return op == frame.OpReadResponse || op == frame.OpAtomicResponse
}

// scatter returns the pieces for the payload, and the position in them.
func (p *placement) scatter(op frame.Opcode) ([]softrdma.Piece, *cursor) {
	if answers(op) {
		return p.reading.request.Pieces, &p.readAt
	}
	return p.receive.Pieces, &p.at
}

// destination returns the next contiguous memory for payload.
func (p *placement) destination(op frame.Opcode) ([]byte, softrdma.Grant) {
	if op == frame.OpWrite {
		return p.target, p.grant
	}
	pieces, at := p.scatter(op)
	piece := &pieces[at.piece]
	return piece.Buf[at.within:], softrdma.Grant{Region: piece.Region}
}

// advance moves past n placed bytes.
func (p *placement) advance(op frame.Opcode, n int) {
	if op == frame.OpWrite {
		p.target = p.target[n:]
		return
	}
	pieces, at := p.scatter(op)
	at.advance(pieces, n)
}

// place copies payload to its destination and returns the number of placed bytes. It
// places less than all if a region was closed. A program polls only memory that a Write
// or an answer changes.
//
// Source: [OP-88]
func (p *placement) place(op frame.Opcode, payload []byte) (placed int) {
	for placed < len(payload) {
		dst, l := p.destination(op)
		n := min(len(dst), len(payload)-placed)
		if !p.regions.acquire(&l) {
			break
		}
		src := payload[placed : placed+n]
		if op.IsSend() {
			copy(dst[:n], src)
		} else {
			softrdma.PlaceSoon(dst[:n], src, &p.fence)
		}
		p.regions.release(&l)
		p.advance(op, n)
		placed += n
	}
	return placed
}

// placePayload places payload of the frame in progress.
func (x *receiver) placePayload(payload []byte) error {
	n := x.place(x.seg.Opcode(), payload)
	x.left -= n
	if n < len(payload) {
		return x.lostRegion()
	}
	return nil
}

// lostRegion returns the error for memory that was deregistered meanwhile.
func (x *receiver) lostRegion() error {
	op := x.seg.Opcode()
	if op == frame.OpWrite {
		return x.violation(frame.FaultSTag)
	}
	v := x.violation(frame.FaultLocal)
	if answers(op) {
		v.reading = rdma.StatusAccessViolation
	} else {
		v.receive = rdma.StatusAccessViolation
	}
	return v
}

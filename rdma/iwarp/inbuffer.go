package iwarp

import (
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// inBuffer holds read bytes that are not handled yet. While nothing arrives, it returns
// its buffer to the pool and keeps a few bytes in rest. Of an unknown peer it keeps all bytes in
// rest: such a peer holds the memory of one frame at most.
type inBuffer struct {
	buf  *[readBufferSize]byte // nil while nothing arrives
	r, w int                   // the bytes are [r, w) of buf, or of rest while buf is nil
	rest []byte                // a part of a frame
	// known: the peer has sent a message, or data to memory that it has a right to.
	known bool
}

// space returns the free part of the buffer, with at most most bytes. It makes room for
// the largest frame.
func (b *inBuffer) space(most int) []byte {
	b.take()
	switch {
	case b.r == b.w:
		b.r, b.w = 0, 0
	case readBufferSize-b.r < frame.MaxFPDU:
		b.w = copy(b.buf[:], b.buf[b.r:b.w])
		b.r = 0
	}
	return b.buf[b.w:min(readBufferSize, b.w+most)]
}

// take gets a buffer if there is none.
func (b *inBuffer) take() {
	if b.buf == nil {
		b.buf = readBuffers.Get().(*[readBufferSize]byte)
		copy(b.buf[b.r:b.w], b.rest)
	}
}

// free returns the buffer to the pool if it has few bytes or none, or if the peer is unknown.
func (b *inBuffer) free() {
	n := b.w - b.r
	if b.buf == nil || n > restSize && b.known {
		return
	}
	if b.known && len(b.rest) > restSize {
		b.rest = nil // of the time when the peer was unknown
	}
	if n > 0 {
		if len(b.rest) < n {
			b.rest = make([]byte, max(n, restSize, min(2*n, frame.MaxFPDU)))
		}
		copy(b.rest, b.buf[b.r:b.w])
	}
	readBuffers.Put(b.buf)
	b.buf, b.r, b.w = nil, 0, n
}

// freeUnknown is free for an unknown peer.
func (b *inBuffer) freeUnknown() {
	if !b.known {
		b.free()
	}
}

// readAhead returns the maximum number of bytes of the next read into the buffer.
func (x *receiver) readAhead() int {
	switch {
	case x.direct > 0:
		return directExtra
	case x.ulpdu < directMin:
		return smallRead
	}
	return readBufferSize
}

// directSpace returns memory for payload of the frame in progress, to read from the
// socket without a copy, and the grant to release afterwards. It returns nil if the
// memory is too short, or if the CRC must be checked first. The last bytes of a frame
// always go through the buffer, because a program may poll them.
func (x *receiver) directSpace() ([]byte, softrdma.Grant) {
	if !x.active || x.c.crc || x.in.r != x.in.w || x.left < directMin {
		return nil, softrdma.Grant{}
	}
	dst, l := x.destination(x.seg.Opcode())
	n := min(len(dst), x.left-8)
	if n < directMin/2 || !l.Acquire() {
		return nil, softrdma.Grant{}
	}
	return dst[:n], l
}

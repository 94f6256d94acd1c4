package iwarp

import (
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// inBuffer holds bytes that were read and not handled. While nothing arrives it returns
// its buffer to the pool and keeps a few bytes elsewhere.
type inBuffer struct {
	buf  *[readBufferSize]byte // nil while nothing arrives
	r, w int                   // the bytes are [r, w) of buf, or of rest while buf is nil
	rest []byte                // a short part of a frame
}

// space returns the free part of the buffer, at most most bytes, with room for the largest
// frame.
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

// take makes sure that there is a buffer.
func (b *inBuffer) take() {
	if b.buf == nil {
		b.buf = readBuffers.Get().(*[readBufferSize]byte)
		copy(b.buf[b.r:b.w], b.rest)
	}
}

// free returns the buffer to the pool if it has few bytes or none.
func (b *inBuffer) free() {
	n := b.w - b.r
	if b.buf == nil || n > restSize {
		return
	}
	if n > 0 {
		if b.rest == nil {
			b.rest = make([]byte, restSize)
		}
		copy(b.rest, b.buf[b.r:b.w])
	}
	readBuffers.Put(b.buf)
	b.buf, b.r, b.w = nil, 0, n
}

// readAhead returns the number of bytes that one read into the buffer may have.
func (x *receiver) readAhead() int {
	switch {
	case x.direct > 0:
		return directExtra
	case x.ulpdu < directMin:
		return smallRead
	}
	return readBufferSize
}

// directSpace returns the memory that payload of the frame in progress is read into
// straight from the socket, and the grant to release after that: nil if there is too
// little, or if the CRC must be checked first. The last bytes of a frame always go through
// the buffer, as a program may poll them.
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

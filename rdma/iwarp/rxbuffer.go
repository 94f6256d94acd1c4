package iwarp

import (
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// space is where the buffer can be filled.
func (x *receiver) space() []byte {
	x.takeBuffer()
	switch {
	case x.r == x.w:
		x.r, x.w = 0, 0
	case readBufferSize-x.r < frame.MaxFPDU:
		x.w = copy(x.buf[:], x.buf[x.r:x.w])
		x.r = 0
	}
	most := readBufferSize
	switch {
	case x.direct > 0:
		most = x.w + directExtra
	case x.ulpdu < directMin:
		most = x.w + smallRead
	}
	return x.buf[x.w:min(readBufferSize, most)]
}

// takeBuffer sees to it that there is a buffer.
func (x *receiver) takeBuffer() {
	if x.buf == nil {
		x.buf = readBuffers.Get().(*[readBufferSize]byte)
		copy(x.buf[x.r:x.w], x.rest)
	}
}

// freeBuffer gives the buffer back if little or nothing is in it.
func (x *receiver) freeBuffer() {
	n := x.w - x.r
	if x.buf == nil || n > restSize {
		return
	}
	if n > 0 {
		if x.rest == nil {
			x.rest = make([]byte, restSize)
		}
		copy(x.rest, x.buf[x.r:x.w])
	}
	readBuffers.Put(x.buf)
	x.buf, x.r, x.w = nil, 0, n
}

// directSpace is where payload of the frame in progress may be read to straight
// from the socket, and the lease to release after that; nil if there is too
// little, or if the CRC must be checked first. The last bytes of a frame always
// go through the buffer: they may be what somebody polls.
func (x *receiver) directSpace() ([]byte, softrdma.Lease) {
	if !x.active || x.c.crc || x.r != x.w || x.left < directMin {
		return nil, softrdma.Lease{}
	}
	dst, l := x.destination()
	n := min(len(dst), x.left-8)
	if n < directMin/2 || !l.Acquire() {
		return nil, softrdma.Lease{}
	}
	return dst[:n], l
}

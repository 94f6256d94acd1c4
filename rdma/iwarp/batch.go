package iwarp

import (
	"encoding/binary"

	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Limits of one system call.
const (
	batchRequests = 64
	batchParts    = 192
	batchHeader   = 16 << 10  // bytes of headers, trailers and copied payload
	batchBytes    = 256 << 10 // of payload, approximately
	copyMax       = 256       // payload up to this size is copied; larger payload is referred to
	frameOverhead = frame.FPDUHeaderSize + frame.UntaggedSize + 3 + frame.CRCSize
)

// batch is a number of frames that are written together. Headers and small payload are in
// head, frame after frame. parts refers to head, and to larger payload in its own memory.
type batch struct {
	requests [batchRequests]*softrdma.WorkRequest
	taken    int // number of requests
	complete int // requests that are completely framed
	answers  [batchRequests]*answer
	asked    int // number of answers
	answered int // answers that are completely framed

	head    [batchHeader]byte
	used    int // bytes used of head
	begun   int // start of the bytes of head that are not in parts yet
	parts   [][]byte
	written int // bytes of the first part that are written
	first   int // parts before this index are written
	bytes   int // of payload
	touched bool
	holds   []hold // the memory that parts refers to
	io      vectors
	file    *[readBufferSize]byte // buffer for file data, or nil
	read    int                   // bytes used of file
}

// hold is memory that a batch refers to. remote means that the memory is the source of a
// peer's read.
type hold struct {
	grant  softrdma.Grant
	remote bool
}

func newBatch() *batch {
	return &batch{parts: make([][]byte, 0, batchParts), holds: make([]hold, 0, batchParts)}
}

// reset empties the batch and drops its references.
func (b *batch) reset() {
	clear(b.requests[:b.taken])
	clear(b.answers[:b.asked])
	clear(b.parts)
	clear(b.holds)
	b.io.reset()
	b.taken, b.complete, b.used, b.begun, b.written, b.first, b.bytes = 0, 0, 0, 0, 0, 0, 0
	b.asked, b.answered = 0, 0
	b.file, b.read = nil, 0
	b.parts, b.holds, b.touched = b.parts[:0], b.holds[:0], false
}

// room reports whether a frame of a request with the given number of pieces fits.
func (b *batch) room(pieces int) bool {
	return b.bytes < batchBytes && len(b.parts)+2*pieces+2 <= batchParts &&
		b.used+2*frameOverhead+copyMax <= batchHeader
}

// open begins a frame with a ULPDU of the given size.
func (b *batch) open(ulpdu int) { b.put16(uint16(ulpdu)) }

func (b *batch) put16(v uint16) {
	binary.BigEndian.PutUint16(b.head[b.used:], v)
	b.used += 2
}

// refer adds payload without copying it.
func (b *batch) refer(h hold, p []byte) {
	if b.begun != b.used {
		b.parts = append(b.parts, b.head[b.begun:b.used])
		b.begun = b.used
	}
	b.parts = append(b.parts, p)
	if n := len(b.holds); n == 0 || b.holds[n-1] != h {
		b.holds = append(b.holds, h)
	}
}

// end appends padding and the CRC, or zeros.
func (b *batch) end(ulpdu int, sum uint32, crc bool) {
	b.used = len(frame.AppendTrailer(b.head[:b.used], ulpdu, sum, crc))
}

// seal makes the last bytes of head a part.
func (b *batch) seal() {
	if b.begun != b.used {
		b.parts = append(b.parts, b.head[b.begun:b.used])
		b.begun = b.used
	}
}

// acquire takes references to all memory, or to none if a part of it is gone. The error
// depends on the side that named the memory.
func (b *batch) acquire() error {
	for i := range b.holds {
		if b.holds[i].grant.Acquire() {
			continue
		}
		for j := range b.holds[:i] {
			b.holds[j].grant.Release()
		}
		if b.holds[i].remote {
			return &violation{fault: frame.FaultReadSTag}
		}
		return errRegionClosed
	}
	return nil
}

func (b *batch) release() {
	for i := range b.holds {
		b.holds[i].grant.Release()
	}
}

// advance records that n bytes were written and reports whether all bytes are written.
func (b *batch) advance(n int) bool {
	b.touched = b.touched || n > 0
	for b.first < len(b.parts) {
		left := len(b.parts[b.first]) - b.written
		if n < left {
			b.written += n
			return false
		}
		n -= left
		b.first, b.written = b.first+1, 0
	}
	return true
}

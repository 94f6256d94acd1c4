package iwarp

import (
	"encoding/binary"
	"hash/crc32"

	"lwio/rdma"
)

// Limits of what one system call writes.
const (
	batchRequests = 64
	batchParts    = 192
	batchHeader   = 16 << 10  // bytes of headers, trailers and copied payload
	batchBytes    = 256 << 10 // payload, more or less
	copyMax       = 256       // payload that is copied rather than referred to
	frameOverhead = fpduHeaderSize + untaggedSize + 3 + crcSize
)

// batch is a number of frames that go out together: what is small stands, frame
// after frame, in head, and larger payload is referred to where it is.
type batch struct {
	requests [batchRequests]*sendRequest
	taken    int // requests in it
	complete int // of these, how many are in it to their last byte
	results  [batchRequests]rdma.Result

	head    [batchHeader]byte
	used    int // bytes of head
	begun   int // where in head the part begins that is not in parts yet
	parts   [][]byte
	written int // bytes of the first part that are gone
	first   int // parts before this one are gone
	bytes   int // payload
	touched bool
	regions []*region // that parts refer to
	io      vectors
}

func newBatch() *batch {
	return &batch{parts: make([][]byte, 0, batchParts), regions: make([]*region, 0, batchParts)}
}

// reset empties the batch and lets go of all memory.
func (b *batch) reset() {
	clear(b.requests[:b.taken])
	clear(b.parts)
	clear(b.regions)
	b.io.reset()
	b.taken, b.complete, b.used, b.begun, b.written, b.first, b.bytes = 0, 0, 0, 0, 0, 0, 0
	b.parts, b.regions, b.touched = b.parts[:0], b.regions[:0], false
}

// room tells whether a frame of a request with that many pieces fits in.
func (b *batch) room(pieces int) bool {
	return b.bytes < batchBytes && len(b.parts)+2*pieces+2 <= batchParts &&
		b.used+frameOverhead+copyMax <= batchHeader
}

// open begins a frame with a ULPDU of n bytes and gives the place for the DDP
// header.
func (b *batch) open(ulpdu int) { b.put16(uint16(ulpdu)) }

func (b *batch) put16(v uint16) {
	binary.BigEndian.PutUint16(b.head[b.used:], v)
	b.used += 2
}

// refer adds payload that stays where it is.
func (b *batch) refer(r *region, p []byte) {
	if b.begun != b.used {
		b.parts = append(b.parts, b.head[b.begun:b.used])
		b.begun = b.used
	}
	b.parts = append(b.parts, p)
	if n := len(b.regions); n == 0 || b.regions[n-1] != r {
		b.regions = append(b.regions, r)
	}
}

// end pads the frame and adds the CRC, or zeros.
func (b *batch) end(ulpdu int, sum uint32, crc bool) {
	pad := padOf(ulpdu)
	clear(b.head[b.used : b.used+pad])
	if crc {
		sum = crc32.Update(sum, castagnoli, b.head[b.used:b.used+pad])
	}
	b.used += pad
	binary.LittleEndian.PutUint32(b.head[b.used:], sum)
	b.used += crcSize
}

// seal makes the last bytes of head a part.
func (b *batch) seal() {
	if b.begun != b.used {
		b.parts = append(b.parts, b.head[b.begun:b.used])
		b.begun = b.used
	}
}

// acquire takes references to all regions, or to none if one is closed.
func (b *batch) acquire() bool {
	for i, r := range b.regions {
		if !r.acquire() {
			for _, r := range b.regions[:i] {
				r.release()
			}
			return false
		}
	}
	return true
}

func (b *batch) release() {
	for _, r := range b.regions {
		r.release()
	}
}

// advance notes that n bytes were written and tells whether that was all.
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

package iwarp

import (
	"hash/crc32"

	"lwio/rdma"
)

// payloadFor is how much payload a frame carries: a multiple of the page size if
// it is large, so that a transfer stays aligned, else of 8 bytes.
func payloadFor(ulpdu, header int) int {
	n := ulpdu - header
	if n >= 16<<10 {
		return n &^ 4095
	}
	return n &^ 7
}

// frame adds the rest of a request to the batch; done says that it is all in, ok
// that its memory is still there.
func (t *sender) frame(r *sendRequest) (done, ok bool) {
	b := t.b
	for {
		if !b.room(len(r.pieces)) {
			return false, true
		}
		if !t.frameOne(r) {
			return false, false
		}
		if t.offset == r.length {
			break
		}
	}
	if r.op == rdma.OpSend {
		t.msn++
	}
	t.offset, t.piece, t.within = 0, 0, 0
	return true, true
}

// frameOne adds one frame.
func (t *sender) frameOne(r *sendRequest) bool {
	limit, header := t.maxTagged, taggedSize
	if r.op == rdma.OpSend {
		limit, header = t.maxUntagged, untaggedSize
	}
	n := min(r.length-t.offset, limit)
	s := t.segment(r, t.offset+n == r.length)
	b, start := t.b, t.b.used
	b.open(header + n)
	b.used = len(s.appendTo(b.head[:b.used]))
	sum, ok := t.payload(r, start, n)
	if !ok {
		return false
	}
	b.end(header+n, sum, t.c.crc)
	t.offset += n
	b.bytes += n
	return true
}

// segment is the header of the next frame of a request.
func (t *sender) segment(r *sendRequest, last bool) segment {
	if r.op == rdma.OpWrite {
		return taggedSegment(opWrite, uint32(r.remote.Token), r.remote.Addr+uint64(t.offset), last)
	}
	op := opSend
	if r.flags&rdma.FlagSolicitEvent != 0 {
		op = opSendEvent
	}
	return untaggedSegment(op, queueSend, t.msn, uint32(t.offset), last)
}

// payload adds n bytes of a request to the frame that begins at start of head,
// and gives the CRC of all that.
func (t *sender) payload(r *sendRequest, start, n int) (sum uint32, ok bool) {
	b, crc := t.b, t.c.crc
	if len(r.pieces) == 0 && n > 0 && n > copyMax {
		return t.payloadInline(r, start, n)
	}
	if len(r.pieces) == 0 {
		b.used += copy(b.head[b.used:], r.inline[t.offset:t.offset+n])
	}
	if crc {
		sum = crc32.Checksum(b.head[start:b.used], castagnoli)
	}
	small := n <= copyMax
	for n > 0 && len(r.pieces) != 0 {
		p := &r.pieces[t.piece]
		data := p.buf[t.within:min(len(p.buf), t.within+n)]
		if small || crc {
			if !p.region.acquire() {
				return 0, false
			}
			if small {
				copied := copy(b.head[b.used:], data)
				b.used += copied
			}
			if crc {
				sum = crc32.Update(sum, castagnoli, data)
			}
			p.region.release()
		}
		if !small {
			b.refer(p.region, data)
		}
		n -= len(data)
		if t.within += len(data); t.within == len(p.buf) {
			t.piece, t.within = t.piece+1, 0
		}
	}
	return sum, true
}

// payloadInline refers to inline data, which lives as long as its slot.
func (t *sender) payloadInline(r *sendRequest, start, n int) (sum uint32, ok bool) {
	b := t.b
	data := r.inline[t.offset : t.offset+n]
	if t.c.crc {
		sum = crc32.Update(crc32.Checksum(b.head[start:b.used], castagnoli), castagnoli, data)
	}
	b.seal()
	b.parts = append(b.parts, data)
	return sum, true
}

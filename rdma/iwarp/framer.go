package iwarp

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// payloadFor returns the payload size of a frame with the given ULPDU and header sizes. A
// large payload is a multiple of the page size, so that a transfer stays aligned; a small
// one is a multiple of 8 bytes.
func payloadFor(ulpdu, header int) int {
	n := ulpdu - header
	if n >= 16<<10 {
		return n &^ 4095
	}
	return n &^ 7
}

// framer turns the requests and answers of a batch into frames. It belongs to the
// goroutine that has the right to send.
type framer struct {
	qp                     *queuePair
	crc                    bool
	outbound               int // reads in progress that this side may have
	maxTagged, maxUntagged int // payload of one frame

	b          *batch
	regions    regionCache // in use while frames are made
	files      fileReader
	msn        uint32 // of the next Send
	readMSN    uint32 // of the next Read or Atomic Request
	atomicMSN  uint32 // of the next Atomic Response
	part       part   // the kind of the partly framed message
	offset     int    // framed bytes of it
	piece      int    // the piece with the next byte
	within     int    // the offset of the next byte in that piece
	mayBlock   bool   // reading a file may wait: this is the writing goroutine
	wouldBlock bool   // reading a file would have to wait
}

// part is the kind of a message that is partly framed.
type part uint8

const (
	partNone    part = iota
	partRequest      // request InitiatorQueue.Next
	partAnswer       // the first answer
)

func (t *framer) init(c *conn, limit int) {
	t.qp, t.crc, t.outbound = c.qp, c.crc, c.limits.Outbound
	t.msn, t.readMSN, t.atomicMSN = 1, 1, 1
	t.maxTagged, t.maxUntagged = payloadFor(limit, frame.TaggedSize), payloadFor(limit, frame.UntaggedSize)
	t.files.init()
}

// frameAll frames the messages of the batch, one after another. It frames requests, and
// bursts of answers to the peer between them.
//
// Source: [RFC 5040 §5.5]
func (t *framer) frameAll() error {
	defer t.regions.flush()
	b := t.b
	for burst := 0; ; {
		requests, answers := b.complete < b.taken, b.answered < b.asked
		switch {
		case answers && t.part != partRequest && (t.part == partAnswer || !requests || burst < answerBurst):
			done, err := t.frameAnswer(b.answers[b.answered])
			if err != nil || !done {
				t.part = partAnswer
				return err
			}
			t.part = partNone
			t.qp.reads.answered()
			b.answered++
			burst++
		case requests:
			r := b.requests[b.complete]
			if t.part == partNone && t.qp.reads.fenced(r, t.outbound) {
				b.taken = b.complete
				clear(b.requests[b.taken:])
				continue
			}
			done, err := t.frame(r)
			t.part = partRequest
			if err != nil {
				return err
			}
			if !done {
				if t.offset == 0 {
					t.part = partNone
				}
				return nil
			}
			t.part = partNone
			b.complete++
			burst = 0
		default:
			return nil
		}
	}
}

// openFrame is an incomplete frame.
type openFrame struct {
	start   int // its offset in head
	summed  int // end of the bytes of head that the CRC covers
	payload int
	ulpdu   int
	sum     uint32
}

// open begins the frame f with the header s and n bytes of payload.
func (t *framer) open(f *openFrame, s *frame.Segment, n int) {
	b := t.b
	f.start, f.summed, f.payload, f.ulpdu = b.used, b.used, n, s.Size()+n
	b.open(f.ulpdu)
	b.used = len(s.AppendTo(b.head[:b.used]))
	t.sumHead(f)
}

// sumHead adds the new bytes of head to the CRC.
func (t *framer) sumHead(f *openFrame) {
	if t.crc {
		f.sum = frame.UpdateCRC(f.sum, t.b.head[f.summed:t.b.used])
	}
	f.summed = t.b.used
}

// close ends a frame.
func (t *framer) close(f *openFrame) {
	t.b.end(f.ulpdu, f.sum, t.crc)
	t.b.bytes += f.payload
}

// addControl adds a frame whose content is an RDMAP header.
func (t *framer) addControl(s *frame.Segment, content []byte) {
	var f openFrame
	t.open(&f, s, len(content))
	t.b.used += copy(t.b.head[t.b.used:], content)
	t.sumHead(&f)
	t.close(&f)
}

// add adds payload from memory and reports whether the memory still exists. remote means
// that it is the source of a peer's read.
func (t *framer) add(f *openFrame, l softrdma.Grant, data []byte, remote bool) bool {
	b, small := t.b, f.payload <= copyMax
	if small || t.crc {
		if !t.regions.acquire(&l) {
			return false
		}
		if small {
			b.used += copy(b.head[b.used:], data)
			t.sumHead(f)
		} else {
			f.sum = frame.UpdateCRC(f.sum, data)
		}
		t.regions.release(&l)
	}
	if !small {
		b.refer(hold{l, remote}, data)
	}
	return true
}

// frame adds the rest of a request to the batch. done means that the request is
// completely framed, an error that its memory or file is gone.
func (t *framer) frame(r *softrdma.WorkRequest) (done bool, err error) {
	switch r.Op {
	case rdma.OpRead:
		return t.frameRead(r), nil
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		return t.frameAtomic(r), nil
	case rdma.OpBind, rdma.OpInvalidate:
		t.qp.Initiator.Lock()
		t.qp.Initiator.Windows.CarryOutLocked(&r.Window)
		t.qp.Initiator.Unlock()
		return true, nil
	}
	b := t.b
	for {
		if !b.room(len(r.Pieces)) {
			return false, nil
		}
		if more, err := t.frameOne(r); !more {
			return false, err
		}
		if t.offset == r.Length {
			break
		}
	}
	switch {
	case r.Op == rdma.OpSend:
		t.msn++
	case r.Flags&rdma.FlagImmediate != 0:
		t.frameImmediate(r)
	}
	t.offset, t.piece, t.within = 0, 0, 0
	return true, nil
}

// frameOne adds one frame. It adds none if there is no space, or if file data is not
// available yet.
func (t *framer) frameOne(r *softrdma.WorkRequest) (bool, error) {
	limit := t.maxTagged
	if r.Op == rdma.OpSend {
		limit = t.maxUntagged
	}
	n := min(r.Length-t.offset, limit)
	var data []byte
	if r.File != nil && n > 0 {
		var err error
		if data, err = t.fileData(r, n); data == nil {
			return false, err
		}
	}
	var s frame.Segment
	var f openFrame
	t.segment(&s, r, t.offset+n == r.Length)
	t.open(&f, &s, n)
	switch {
	case r.File != nil:
		t.addOwned(&f, data)
	case len(r.Pieces) == 0:
		t.addOwned(&f, r.Inline[t.offset:t.offset+n])
	case !t.addPieces(&f, r, n):
		return false, errRegionClosed
	}
	t.close(&f)
	t.offset += n
	return true, nil
}

// segment makes s the header of the next frame of a request.
func (t *framer) segment(s *frame.Segment, r *softrdma.WorkRequest, last bool) {
	if r.Op == rdma.OpWrite {
		s.SetTagged(frame.OpWrite, uint32(r.Remote.Token), r.Remote.Addr+uint64(t.offset), last)
		return
	}
	op := frame.OpSend
	if r.Flags&rdma.FlagSolicitEvent != 0 {
		op = frame.OpSendEvent
	}
	s.SetUntagged(op, frame.QueueSend, t.msn, uint32(t.offset), last)
}

// addPieces adds the next n bytes of a request. It returns false if their memory is gone.
func (t *framer) addPieces(f *openFrame, r *softrdma.WorkRequest, n int) bool {
	for n > 0 {
		p := &r.Pieces[t.piece]
		data := p.Buf[t.within:min(len(p.Buf), t.within+n)]
		if !t.add(f, softrdma.Grant{Region: p.Region}, data, false) {
			return false
		}
		n -= len(data)
		if t.within += len(data); t.within == len(p.Buf) {
			t.piece, t.within = t.piece+1, 0
		}
	}
	return true
}

// addOwned adds inline data, which lives as long as its slot, or file data, which is in
// the batch. Small data is copied, large data is referred to.
func (t *framer) addOwned(f *openFrame, data []byte) {
	b := t.b
	if len(data) <= copyMax {
		b.used += copy(b.head[b.used:], data)
		t.sumHead(f)
		return
	}
	if t.crc {
		f.sum = frame.UpdateCRC(f.sum, data)
	}
	b.seal()
	b.parts = append(b.parts, data)
}

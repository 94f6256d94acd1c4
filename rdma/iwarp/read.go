package iwarp

import (
	"bytes"

	"lwio/rdma"
)

// Reads in progress.
const (
	// maxReads is how many RDMA reads of each direction a connection may have in
	// progress.
	maxReads = 128
	// answerBurst is how many answers go out in a row while requests of this side
	// wait.
	answerBurst = 4
)

// readOut is a read of this side whose answer is not complete. It has a sink
// STag of its own, which is good for this one answer on this one connection, so
// that the memory that it reads into needs no right of remote write.
//
// Source: [RFC 5040 §4.4], [RFC 5042 §6.3]
type readOut struct {
	request *sendRequest // nil for a ready-to-receive message
	length  int
	stag    uint32
	to      uint64
}

// answer is a read of the peer that is not answered to the last byte.
type answer struct {
	req    readRequest
	msn    uint32
	lease  lease // unused if there is nothing to read
	source []byte
}

// register makes an outstanding read of a request, which may be nil, and
// gives the content of the Read Request. The caller holds queuePair.mu.
func (c *conn) register(r *sendRequest) readRequest {
	key := c.a.dom.Keys.Uint64()
	o := c.qp.reads.Push()
	*o = readOut{request: r, stag: uint32(key), to: key >> 32 << 8}
	q := readRequest{sinkSTag: o.stag, sinkTO: o.to}
	if r != nil {
		r.pending = true
		o.length = r.length
		q.size, q.sourceSTag, q.sourceTO = uint32(r.length), uint32(r.remote.Token), r.remote.Addr
	}
	return q
}

// acceptReadRequest checks the header of a Read Request.
//
// Source: [RFC 5040 §4.4], [RFC 5041 §7]
func (x *receiver) acceptReadRequest() error {
	switch s := &x.seg; {
	case s.qn != queueRequest:
		return x.violation(faultQN)
	case s.msn != x.readMSN:
		return x.violation(faultMSN)
	case s.mo != 0:
		return x.violation(faultMO)
	case x.left > readRequestSize:
		return x.violation(faultTooLong)
	case !s.last() || x.left != readRequestSize:
		return x.violation(faultRDMAPOther)
	}
	return nil
}

// takeReadRequest checks what the peer wants to read and queues the answer. Of a
// read of nothing only the place in the queue is checked.
//
// Source: [RFC 5040 §4.4], [RFC 5040 §5.2], [RFC 5042 §6.4.2]
func (x *receiver) takeReadRequest(payload []byte) error {
	req, err := decodeReadRequest(payload)
	if err != nil {
		return x.violation(faultRDMAPOther)
	}
	qp := x.c.qp
	qp.mu.Lock()
	excess := qp.answers.Len() >= x.c.limits.Inbound
	qp.mu.Unlock()
	if excess {
		return x.violation(faultStream)
	}
	a := answer{req: req, msn: x.seg.msn}
	if req.size > 0 {
		if f := x.findSource(&a); f != nil {
			v := x.violation(*f)
			v.read = bytes.Clone(payload)
			return v
		}
	}
	qp.mu.Lock()
	*qp.answers.Push() = a
	qp.mu.Unlock()
	x.readMSN++
	x.kick = true
	return nil
}

// findSource finds the memory that an answer is taken from: STag, then rights,
// then bounds.
func (x *receiver) findSource(a *answer) *fault {
	v, ok := x.c.find(a.req.sourceSTag)
	switch {
	case !ok:
		return &faultReadSTag
	case !v.access.Has(rdma.AccessRemoteRead):
		return &faultReadAccess
	}
	source, f := v.slice(a.req.sourceTO, uint64(a.req.size))
	switch {
	case f == &faultWrap:
		return &faultReadWrap
	case f != nil:
		return &faultReadBounds
	}
	a.lease, a.source = v.lease, source
	return nil
}

// lost is the violation for an answer whose memory is gone when sent bytes of it
// are framed.
//
// Source: [RFC 5040 §4.8]
func (a *answer) lost(sent int) *violation {
	s := untaggedSegment(opReadRequest, queueRequest, a.msn, 0, true)
	left := a.req
	left.sinkTO += uint64(sent)
	left.sourceTO += uint64(sent)
	left.size -= uint32(sent)
	return &violation{
		fault:  faultReadSTag,
		header: s.appendTo(nil),
		ulpdu:  untaggedSize + readRequestSize,
		read:   left.appendTo(nil),
	}
}

// acceptReadResponse checks a segment of the answer to the first outstanding
// read: answers come in the order of the reads, byte after byte.
//
// Source: [RFC 5040 §4.4], [RFC 5042 §6.3]
func (x *receiver) acceptReadResponse() error {
	if x.reading == nil {
		qp := x.c.qp
		qp.mu.Lock()
		if qp.reads.Len() > 0 {
			x.reading, x.readAt = qp.reads.At(qp.reads.Head), cursor{}
		}
		qp.mu.Unlock()
	}
	o := x.reading
	if o == nil {
		return x.violation(faultOpcode)
	}
	done := x.readAt.bytes
	switch {
	case x.left > 0 && x.seg.stag != o.stag:
		return x.violation(faultSTag)
	case x.left > 0 && x.seg.to != o.to+uint64(done), x.left > o.length-done:
		return x.violation(faultBounds)
	case x.seg.last() != (done+x.left == o.length):
		return x.violation(faultRDMAPOther)
	}
	return nil
}

// finishRead ends the first outstanding read.
func (x *receiver) finishRead() {
	qp := x.c.qp
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if r := x.reading.request; r != nil {
		r.pending = false
		x.settle = true
	}
	*x.reading = readOut{}
	qp.reads.Head++
	x.reading = nil
	x.kick = true
}

// frameAnswer adds the rest of an answer to the batch; done says that it is all
// in.
func (t *sender) frameAnswer(a *answer) (done bool, err error) {
	b := t.b
	for {
		if !b.room(1) {
			return false, nil
		}
		n := min(len(a.source)-t.offset, t.maxTagged)
		last := t.offset+n == len(a.source)
		s := taggedSegment(opReadResponse, a.req.sinkSTag, a.req.sinkTO+uint64(t.offset), last)
		f := t.open(&s, n)
		if n > 0 && !t.add(&f, a.lease, a.source[t.offset:t.offset+n], true) {
			return false, a.lost(t.offset)
		}
		t.close(&f)
		t.offset += n
		if last {
			t.offset = 0
			return true, nil
		}
	}
}

// frameRead adds the Read Request of a read to the batch.
func (t *sender) frameRead(r *sendRequest) (done bool) {
	b := t.b
	if !b.room(0) {
		return false
	}
	qp := t.c.qp
	qp.mu.Lock()
	q := t.c.register(r)
	qp.mu.Unlock()
	s := untaggedSegment(opReadRequest, queueRequest, t.readMSN, 0, true)
	f := t.open(&s, readRequestSize)
	b.used = len(q.appendTo(b.head[:b.used]))
	t.sumHead(&f)
	t.close(&f)
	t.readMSN++
	return true
}

// heldLocked tells whether a request must wait for earlier reads.
//
// Source: [ND §Op flags READ_FENCE], [RFC 6581 §9.2]
func (t *sender) heldLocked(r *sendRequest) bool {
	n := t.c.qp.reads.Len()
	return r.flags&rdma.FlagReadFence != 0 && n > 0 || r.op == rdma.OpRead && n >= t.c.limits.Outbound
}

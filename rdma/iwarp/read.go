package iwarp

import (
	"bytes"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Limits of reads in progress.
const (
	// maxReads bounds the RDMA reads in progress of each direction of a connection.
	maxReads = 128
	// answerBurst is the number of answers that are sent in a row while requests of this
	// side wait.
	answerBurst = 4
)

// readOut is a read or an atomic operation of this side without a complete answer. A read
// has its own sink STag. The STag is valid only for this answer on this connection, so
// the memory needs no right of remote write.
//
// Source: [RFC 5040 §4.4], [RFC 5042 §6.3], [RFC 7306 §5.2]
type readOut struct {
	request *softrdma.WorkRequest // nil for a ready-to-receive message
	length  int
	stag    uint32
	to      uint64
	atomic  bool
	id      uint32 // identifies an atomic operation
}

// answer is a read of the peer without a complete answer, or an atomic operation that was
// carried out.
type answer struct {
	req    frame.ReadRequest
	msn    uint32
	grant  softrdma.Grant // unused for a read of no bytes
	source []byte

	atomic   bool
	response frame.AtomicResponse
}

// readTable has the reads and atomics in progress of a connection, in both directions.
// The lock of the initiator queue guards it.
type readTable struct {
	mu      *sync.Mutex
	own     softrdma.FIFO[readOut] // of this side, waiting for answers
	answers softrdma.FIFO[answer]  // to reads and atomics of the peer
}

// ask adds the read of r to the table, with the random key of its sink, and returns the
// content of the Read Request. A nil r stands for a read of no bytes.
func (t *readTable) ask(r *softrdma.WorkRequest, key uint64) frame.ReadRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.own.Push()
	*o = readOut{request: r, stag: uint32(key), to: key >> 32 << 8}
	q := frame.ReadRequest{SinkSTag: o.stag, SinkTO: o.to}
	if r != nil {
		r.Pending = true
		o.length = r.Length
		q.Size, q.SourceSTag, q.SourceTO = uint32(r.Length), uint32(r.Remote.Token), r.Remote.Addr
	}
	return q
}

// askAtomic adds the atomic operation of r to the table, with the given identifier.
func (t *readTable) askAtomic(r *softrdma.WorkRequest, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Pending = true
	*t.own.Push() = readOut{request: r, length: r.Length, atomic: true, id: id}
}

// first returns the read or atomic that the peer must answer next, or nil.
func (t *readTable) first() *readOut {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own.Len() == 0 {
		return nil
	}
	return t.own.At(t.own.Head)
}

// finish removes o, the first in the table, and reports whether it completes a request.
func (t *readTable) finish(o *readOut) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := o.request
	if r != nil {
		r.Pending = false
	}
	*o = readOut{}
	t.own.Head++
	return r != nil
}

// full reports whether the peer has inbound or more reads and atomics in progress.
//
// Source: [RFC 5040 §5.2], [RFC 5042 §6.4.3.3], [RFC 7306 §5]
func (t *readTable) full(inbound int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers.Len() >= inbound
}

// answer queues an answer for the sender.
func (t *readTable) answer(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.answers.Push() = a
}

// answered removes the first answer, which is completely framed. Until then the peer has
// not received the end of the answer and may not begin another read.
func (t *readTable) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.answers.At(t.answers.Head) = answer{}
	t.answers.Head++
}

// fenced reports whether a request must wait for earlier reads and atomics.
func (t *readTable) fenced(r *softrdma.WorkRequest, outbound int) bool {
	if !r.Asks() && r.Flags&rdma.FlagReadFence == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.Fenced(t.own.Len(), outbound)
}

// acceptControl checks the header of a message that consists of an RDMAP header: its
// queue, its sequence number and its size.
//
// Source: [RFC 5040 §4.4], [RFC 5041 §7], [RFC 7306 §5.2]
func (x *inFrame) acceptControl(qn, msn uint32, size int) error {
	switch s := &x.seg; {
	case s.QN != qn:
		return x.violation(frame.FaultQN)
	case s.MSN != msn:
		return x.violation(frame.FaultMSN)
	case s.MO != 0:
		return x.violation(frame.FaultMO)
	case x.left > size:
		return x.violation(frame.FaultTooLong)
	case !s.Last() || x.left != size:
		return x.violation(frame.FaultRDMAPOther)
	}
	return nil
}

// answerLater queues an answer for the sender.
func (x *receiver) answerLater(a answer) {
	x.c.qp.reads.answer(a)
	x.readMSN++
	x.wakeSender = true
}

// takeReadRequest checks a Read Request of the peer and queues the answer. For a read of
// no bytes it checks only the number of reads in progress.
//
// Source: [RFC 5040 §4.4], [RFC 5040 §5.2], [RFC 5042 §6.4.3.3]
func (x *receiver) takeReadRequest(payload []byte) error {
	req, err := frame.DecodeReadRequest(payload)
	if err != nil {
		return x.violation(frame.FaultRDMAPOther)
	}
	if x.c.qp.reads.full(x.c.limits.Inbound) {
		return x.violation(frame.FaultStream)
	}
	a := answer{req: req, msn: x.seg.MSN}
	if req.Size > 0 {
		var f *frame.Fault
		a.grant, a.source, f = x.findSource(req.SourceSTag, req.SourceTO, uint64(req.Size), rdma.AccessRemoteRead)
		if f != nil {
			v := x.violation(*f)
			v.read = bytes.Clone(payload)
			return v
		}
	}
	x.answerLater(a)
	return nil
}

// findSource returns the memory that the peer reads or changes. It checks the STag, then
// the rights, then the bounds.
func (x *receiver) findSource(stag uint32, to, size uint64, access rdma.Access) (softrdma.Grant, []byte, *frame.Fault) {
	l, source, refused := x.c.qp.Initiator.Windows.Resolve(stag, to, size, access)
	if refused != softrdma.Granted {
		return softrdma.Grant{}, nil, &readFaults[refused]
	}
	return l, source, nil
}

// lost returns the violation for an answer if its memory is gone after sent bytes are
// framed.
//
// Source: [RFC 5040 §4.8]
func (a *answer) lost(sent int) *violation {
	s := frame.UntaggedSegment(frame.OpReadRequest, frame.QueueRequest, a.msn, 0, true)
	left := a.req
	left.SinkTO += uint64(sent)
	left.SourceTO += uint64(sent)
	left.Size -= uint32(sent)
	return &violation{
		fault:  frame.FaultReadSTag,
		header: s.AppendTo(nil),
		ulpdu:  frame.UntaggedSize + frame.ReadRequestSize,
		read:   left.AppendTo(nil),
	}
}

// acceptReadResponse checks a segment of the answer to the first read in progress.
// Answers come in the order of the reads and of the bytes in each.
//
// Source: [RFC 5040 §4.4], [RFC 5042 §6.3]
func (x *receiver) acceptReadResponse() error {
	o := x.nextAnswer()
	if o == nil || o.atomic {
		return x.violation(frame.FaultOpcode)
	}
	done := x.readAt.bytes
	switch {
	case x.left > 0 && x.seg.STag != o.stag:
		return x.violation(frame.FaultSTag)
	case x.left > 0 && x.seg.TO != o.to+uint64(done), x.left > o.length-done:
		return x.violation(frame.FaultBounds)
	case x.seg.Last() != (done+x.left == o.length):
		return x.violation(frame.FaultRDMAPOther)
	}
	return nil
}

// nextAnswer returns the read or atomic that the peer must answer next, or nil.
func (x *receiver) nextAnswer() *readOut {
	if x.reading == nil {
		x.reading, x.readAt = x.c.qp.reads.first(), cursor{}
	}
	return x.reading
}

// finishRead completes the first read or atomic in progress.
func (x *receiver) finishRead() {
	if x.c.qp.reads.finish(x.reading) {
		x.readsDone = true
	}
	x.reading = nil
	x.wakeSender = true
}

// frameAnswer adds the rest of an answer to the batch. done means that it is completely
// framed.
func (t *framer) frameAnswer(a *answer) (done bool, err error) {
	b := t.b
	for {
		if !b.room(1) {
			return false, nil
		}
		if a.atomic {
			t.frameAtomicAnswer(a)
			return true, nil
		}
		n := min(len(a.source)-t.offset, t.maxTagged)
		last := t.offset+n == len(a.source)
		s := frame.TaggedSegment(frame.OpReadResponse, a.req.SinkSTag, a.req.SinkTO+uint64(t.offset), last)
		var f openFrame
		t.open(&f, &s, n)
		if n > 0 && !t.add(&f, a.grant, a.source[t.offset:t.offset+n], true) {
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
func (t *framer) frameRead(r *softrdma.WorkRequest) (done bool) {
	if !t.b.room(0) {
		return false
	}
	q := t.qp.reads.ask(r, t.qp.Domain.Keys.Uint64())
	s := frame.UntaggedSegment(frame.OpReadRequest, frame.QueueRequest, t.readMSN, 0, true)
	var content [frame.ReadRequestSize]byte
	t.addControl(&s, q.AppendTo(content[:0]))
	t.readMSN++
	return true
}

package iwarp

import (
	"encoding/binary"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// atomicWord is the size in bytes of the operand of an atomic operation.
const atomicWord = softrdma.AtomicSize

// applyAtomic changes a number in memory and returns its old value. It is atomic with
// respect to all users of sync/atomic, for instance other connections of this process.
func applyAtomic(r *frame.AtomicRequest, word *uint64) uint64 {
	for {
		old := atomic.LoadUint64(word)
		if v := r.After(old); v == old || atomic.CompareAndSwapUint64(word, old, v) {
			return old
		}
	}
}

// takeAtomicRequest carries out an atomic operation of the peer before it handles later
// messages, and queues the answer with the answers to reads. The peer needs both rights,
// because it reads and changes the memory.
//
// Source: [RFC 7306 §5], [RFC 5042 §6.3.5]
func (x *receiver) takeAtomicRequest(payload []byte) error {
	req, err := frame.DecodeAtomicRequest(payload)
	switch {
	case err != nil:
		return x.violation(frame.FaultRDMAPOther)
	case x.c.qp.reads.full(x.c.limits.Inbound):
		return x.violation(frame.FaultStream)
	case req.Op != frame.AtomicFetchAdd && req.Op != frame.AtomicCompareSwap:
		return x.violation(frame.FaultOpcode)
	}
	l, target, f := x.findSource(req.STag, req.TO, atomicWord, rdma.AccessRemoteRead|rdma.AccessRemoteWrite)
	if f != nil {
		return x.violation(*f)
	}
	word := softrdma.WordAt(target)
	if word == nil {
		return x.violation(frame.FaultStream)
	}
	if !l.Acquire() {
		return x.violation(frame.FaultReadSTag)
	}
	old := applyAtomic(&req, word)
	l.Release()
	x.answerLater(answer{msn: x.seg.MSN, atomic: true, response: frame.AtomicResponse{ID: req.ID, Original: old}})
	return nil
}

// acceptAtomicResponse checks the header of an Atomic Response. The next answer that this
// side expects must belong to an atomic operation.
//
// Source: [RFC 7306 §5.2.2]
func (x *receiver) acceptAtomicResponse() error {
	if err := x.acceptControl(frame.QueueAtomicResponse, x.atomicMSN, frame.AtomicResponseSize); err != nil {
		return err
	}
	switch o := x.nextAnswer(); {
	case o == nil:
		return x.violation(frame.FaultNoBuffer)
	case !o.atomic:
		return x.violation(frame.FaultOpcode)
	}
	return nil
}

// takeAtomicResponse places the old value in the memory that the request names.
func (x *receiver) takeAtomicResponse(payload []byte) error {
	res, err := frame.DecodeAtomicResponse(payload)
	if err != nil || res.ID != x.reading.id {
		return x.violation(frame.FaultRDMAPOther)
	}
	x.atomicMSN++
	var word [atomicWord]byte
	binary.NativeEndian.PutUint64(word[:], res.Original)
	return x.placePayload(word[:])
}

// frameAtomic adds an Atomic Request to the batch. Its message sequence number is its
// identifier.
func (t *framer) frameAtomic(r *softrdma.WorkRequest) (done bool) {
	if !t.b.room(0) {
		return false
	}
	t.qp.reads.askAtomic(r, t.readMSN)
	q := frame.AtomicRequest{
		Op: frame.AtomicFetchAdd, ID: t.readMSN, STag: uint32(r.Remote.Token), TO: r.Remote.Addr,
		Data: r.Atomic.Value, Mask: r.Atomic.Mask, CompareMask: ^uint64(0),
	}
	if r.Op == rdma.OpCompareSwap {
		q.Op, q.CompareData, q.CompareMask = frame.AtomicCompareSwap, r.Atomic.Compare, r.Atomic.CompareMask
	}
	s := frame.UntaggedSegment(frame.OpAtomicRequest, frame.QueueRequest, t.readMSN, 0, true)
	var content [frame.AtomicRequestSize]byte
	t.addControl(&s, q.AppendTo(content[:0]))
	t.readMSN++
	return true
}

// frameAtomicAnswer adds an Atomic Response to the batch.
func (t *framer) frameAtomicAnswer(a *answer) {
	s := frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, t.atomicMSN, 0, true)
	var content [frame.AtomicResponseSize]byte
	t.addControl(&s, a.response.AppendTo(content[:0]))
	t.atomicMSN++
}

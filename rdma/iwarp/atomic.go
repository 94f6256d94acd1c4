package iwarp

import (
	"encoding/binary"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// The operations of an Atomic Request.
//
// Source: [RFC 7306 §5.2.1]
const (
	atomicFetchAdd    = 0
	atomicCompareSwap = 2
)

// atomicWord is the number of bytes that an atomic operation is about.
const atomicWord = softrdma.AtomicSize

// after is the number that takes the place of old.
//
// Source: [RFC 7306 §5.1.1], [RFC 7306 §5.1.2]
func (r *atomicRequest) after(old uint64) uint64 {
	if r.op == atomicFetchAdd {
		// Without the bits of the mask no carry can leave their places.
		return (old&^r.mask + r.data&^r.mask) ^ (old^r.data)&r.mask
	}
	if (old^r.compareData)&r.compareMask != 0 {
		return old
	}
	return old&^r.mask | r.data&r.mask
}

// apply changes a number in memory and gives what it was before. It is atomic
// with all that uses sync/atomic, the other connections of this process among
// them.
func (r *atomicRequest) apply(word *uint64) uint64 {
	for {
		old := atomic.LoadUint64(word)
		if v := r.after(old); v == old || atomic.CompareAndSwapUint64(word, old, v) {
			return old
		}
	}
}

// takeAtomicRequest does what the peer wants to have done, before anything that
// it sent later is looked at, and queues the answer among those to its reads. The
// peer needs both rights, as it learns and changes what is there.
//
// Source: [RFC 7306 §5], [RFC 5042 §6.3.2]
func (x *receiver) takeAtomicRequest(payload []byte) error {
	req, err := decodeAtomicRequest(payload)
	switch {
	case err != nil:
		return x.violation(faultRDMAPOther)
	case x.excess():
		return x.violation(faultStream)
	case req.op != atomicFetchAdd && req.op != atomicCompareSwap:
		return x.violation(faultOpcode)
	}
	l, target, f := x.findSource(req.stag, req.to, atomicWord, rdma.AccessRemoteRead|rdma.AccessRemoteWrite)
	if f != nil {
		return x.violation(*f)
	}
	word := softrdma.WordAt(target)
	if word == nil {
		return x.violation(faultStream)
	}
	if !l.Acquire() {
		return x.violation(faultReadSTag)
	}
	old := req.apply(word)
	l.Release()
	x.answerLater(answer{msn: x.seg.msn, atomic: true, response: atomicResponse{req.id, old}})
	return nil
}

// acceptAtomicResponse checks the header of an Atomic Response: it must be the
// turn of an atomic operation to be answered.
//
// Source: [RFC 7306 §5.2.2]
func (x *receiver) acceptAtomicResponse() error {
	if err := x.acceptControl(queueAtomicResponse, x.atomicMSN, atomicResponseSize); err != nil {
		return err
	}
	switch o := x.nextAnswer(); {
	case o == nil:
		return x.violation(faultNoBuffer)
	case !o.atomic:
		return x.violation(faultOpcode)
	}
	return nil
}

// takeAtomicResponse puts what was there before where the request says.
func (x *receiver) takeAtomicResponse(payload []byte) error {
	res, err := decodeAtomicResponse(payload)
	if err != nil || res.id != x.reading.id {
		return x.violation(faultRDMAPOther)
	}
	x.atomicMSN++
	var word [atomicWord]byte
	binary.NativeEndian.PutUint64(word[:], res.original)
	return x.place(word[:])
}

// frameAtomic adds an Atomic Request to the batch, which is identified by its
// number in the queue of requests.
func (t *sender) frameAtomic(r *softrdma.WorkRequest) (done bool) {
	b := t.b
	if !b.room(0) {
		return false
	}
	qp := t.c.qp
	qp.Initiator.Lock()
	r.Pending = true
	*qp.reads.Push() = readOut{request: r, length: r.Length, atomic: true, id: t.readMSN}
	qp.Initiator.Unlock()
	q := atomicRequest{
		op: atomicFetchAdd, id: t.readMSN, stag: uint32(r.Remote.Token), to: r.Remote.Addr,
		data: r.Atomic.Value, mask: r.Atomic.Mask, compareMask: ^uint64(0),
	}
	if r.Op == rdma.OpCompareSwap {
		q.op, q.compareData, q.compareMask = atomicCompareSwap, r.Atomic.Compare, r.Atomic.CompareMask
	}
	s := untaggedSegment(opAtomicRequest, queueRequest, t.readMSN, 0, true)
	var f openFrame
	t.open(&f, &s, atomicRequestSize)
	b.used = len(q.appendTo(b.head[:b.used]))
	t.sumHead(&f)
	t.close(&f)
	t.readMSN++
	return true
}

// frameAtomicAnswer adds an Atomic Response to the batch.
func (t *sender) frameAtomicAnswer(a *answer) {
	s := untaggedSegment(opAtomicResponse, queueAtomicResponse, t.atomicMSN, 0, true)
	var f openFrame
	t.open(&f, &s, atomicResponseSize)
	t.b.used = len(a.response.appendTo(t.b.head[:t.b.used]))
	t.sumHead(&f)
	t.close(&f)
	t.atomicMSN++
}

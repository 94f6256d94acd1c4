package iwarp

import (
	"encoding/binary"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// frameImmediate adds the Immediate Data message that follows a write: the value
// zero-extended to eight bytes.
//
// Source: [RFC 7306 §6], [OP-86]
func (t *sender) frameImmediate(r *softrdma.WorkRequest) {
	s := untaggedSegment(opImmediate, queueSend, t.msn, 0, true)
	var f openFrame
	t.open(&f, &s, immediateSize)
	b := t.b
	binary.BigEndian.PutUint64(b.head[b.used:], uint64(r.Immediate))
	b.used += immediateSize
	t.sumHead(&f)
	t.close(&f)
	t.msn++
}

// acceptImmediate checks an Immediate Data message, which takes the place of a
// Send and consumes a receive.
//
// Source: [RFC 7306 §6]
func (x *receiver) acceptImmediate() error {
	s := &x.seg
	switch {
	case s.qn != queueSend:
		return x.violation(faultQN)
	case s.msn != x.msn:
		return x.violation(faultMSN)
	case s.mo != 0:
		return x.violation(faultMO)
	case x.left > immediateSize:
		return x.violation(faultTooLong)
	case x.left < immediateSize || !s.last() || x.receive != nil:
		return x.violation(faultRDMAPOther)
	}
	return x.takeReceive()
}

// takeImmediate delivers the value: the lower four of the eight bytes.
func (x *receiver) takeImmediate(payload []byte) {
	x.deliver(&rdma.Result{HasImmediate: true, Immediate: uint32(binary.BigEndian.Uint64(payload))})
}

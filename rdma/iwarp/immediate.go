package iwarp

import (
	"encoding/binary"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// frameImmediate adds the Immediate Data message that follows a write. The value is
// zero-extended to eight bytes.
//
// Source: [RFC 7306 §6], [OP-86]
func (t *framer) frameImmediate(r *softrdma.WorkRequest) {
	s := frame.UntaggedSegment(frame.OpImmediate, frame.QueueSend, t.msn, 0, true)
	var f openFrame
	t.open(&f, &s, frame.ImmediateSize)
	b := t.b
	binary.BigEndian.PutUint64(b.head[b.used:], uint64(r.Immediate))
	b.used += frame.ImmediateSize
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
	case s.QN != frame.QueueSend:
		return x.violation(frame.FaultQN)
	case s.MSN != x.msn:
		return x.violation(frame.FaultMSN)
	case s.MO != 0:
		return x.violation(frame.FaultMO)
	case x.left > frame.ImmediateSize:
		return x.violation(frame.FaultTooLong)
	case x.left < frame.ImmediateSize || !s.Last() || x.receive != nil:
		return x.violation(frame.FaultRDMAPOther)
	}
	return x.takeReceive()
}

// takeImmediate delivers the value: the lower four of the eight bytes.
func (x *receiver) takeImmediate(payload []byte) {
	x.deliver(&rdma.Result{HasImmediate: true, Immediate: uint32(binary.BigEndian.Uint64(payload))})
}

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
	var content [frame.ImmediateSize]byte
	binary.BigEndian.PutUint64(content[:], uint64(r.Immediate))
	t.addControl(&s, content[:])
	t.msn++
}

// acceptImmediate checks an Immediate Data message, which takes the place of a
// Send and consumes a receive.
//
// Source: [RFC 7306 §6]
func (x *receiver) acceptImmediate() error {
	if err := x.acceptControl(frame.QueueSend, x.msn, frame.ImmediateSize); err != nil {
		return err
	}
	if x.receive != nil {
		return x.violation(frame.FaultRDMAPOther)
	}
	return x.takeReceive()
}

// takeImmediate delivers the value: the lower four of the eight bytes.
func (x *receiver) takeImmediate(payload []byte) {
	x.deliver(&rdma.Result{HasImmediate: true, Immediate: uint32(binary.BigEndian.Uint64(payload))})
}

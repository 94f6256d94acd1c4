package iwarp

import (
	"bytes"
	"errors"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// violation is what a peer did wrong, with the header of the segment at fault.
type violation struct {
	fault   fault
	header  []byte
	ulpdu   int
	read    []byte      // the Read Request that it is about
	receive rdma.Status // of the receive in progress
	reading rdma.Status // of the read that is being answered
}

// Error says what is wrong.
func (v *violation) Error() string { return v.fault.String() }

// ending is the end of the connection that the violation leads to.
func (v *violation) ending(c *conn) *ending {
	status := rdma.StatusRemoteError
	switch {
	case v.receive != rdma.StatusSuccess:
		status = v.receive
	case v.reading != rdma.StatusSuccess:
		status = v.reading
	case v.fault == faultCRC:
		status = rdma.StatusDataError
	}
	t := terminateFor(v.fault, v.header, v.ulpdu)
	if v.read != nil && t.control != 0 {
		t.control |= terminateRDMAP
		t.header = append(bytes.Clone(t.header), v.read...)
	}
	cause := &TerminateError{Layer: v.fault.layer, Type: v.fault.kind, Code: v.fault.code}
	return &ending{
		err:     opError("connection", c.peer, status, cause),
		term:    &t,
		receive: v.receive,
		reading: v.reading,
	}
}

// violation makes a violation of the segment in hand.
func (x *receiver) violation(f fault) *violation {
	return &violation{fault: f, header: x.header[:x.seg.size()], ulpdu: x.ulpdu}
}

// remoteTerminate is the error for a Terminate from the peer.
func remoteTerminate(payload []byte) error {
	t, err := decodeTerminate(payload)
	if err != nil {
		t.fault = faultRDMAPOther
	}
	about := len(t.header) < 2
	if !about {
		op := opcode(t.header[1] & rdmapOpcodeMask)
		about = op == opReadRequest || op == opAtomicRequest
	}
	return &TerminateError{Layer: t.fault.layer, Type: t.fault.kind, Code: t.fault.code, Remote: true, read: about}
}

// errStalled says that a message must wait until a shared receive queue has a
// receive for it.
var errStalled = errors.New("no receive in the shared queue yet")

// accept checks the header of a segment and finds the place of its payload.
//
// Source: [RFC 5041 §7], [RFC 5040 §7], [OP-88]
func (x *receiver) accept() error {
	s := &x.seg
	switch {
	case !s.versionOK() && s.tagged():
		return x.violation(faultTaggedVersion)
	case !s.versionOK():
		return x.violation(faultUntaggedVers)
	case !s.rdmapOK():
		return x.violation(faultRDMAPVersion)
	case s.tagged():
		switch s.opcode() {
		case opWrite:
			return x.acceptWrite()
		case opReadResponse:
			return x.acceptReadResponse()
		}
		return x.violation(faultOpcode)
	}
	switch op := s.opcode(); {
	case s.qn > queueAtomicResponse:
		return x.violation(faultQN)
	case op == opTerminate:
		return x.acceptTerminate()
	case op == opReadRequest:
		return x.acceptControl(queueRequest, x.readMSN, readRequestSize)
	case op == opAtomicRequest:
		return x.acceptControl(queueRequest, x.readMSN, atomicRequestSize)
	case op == opAtomicResponse:
		return x.acceptAtomicResponse()
	case op.isImmediate():
		return x.acceptImmediate()
	case !op.isSend():
		return x.violation(faultOpcode)
	case s.qn != queueSend:
		return x.violation(faultQN)
	}
	return x.acceptSend()
}

// acceptTerminate checks the one message of queue 2.
func (x *receiver) acceptTerminate() error {
	switch s := &x.seg; {
	case s.qn != queueTerminate:
		return x.violation(faultQN)
	case s.msn != 1:
		return x.violation(faultMSN)
	case s.mo != 0:
		return x.violation(faultMO)
	}
	return nil
}

// writeFaults and readFaults tell the peer why it may not write, or read, what it
// names.
var (
	writeFaults = [...]fault{
		softrdma.BadToken: faultSTag, softrdma.Denied: faultSTag, softrdma.Wraps: faultWrap, softrdma.OutOfBounds: faultBounds,
	}
	readFaults = [...]fault{
		softrdma.BadToken: faultReadSTag, softrdma.Denied: faultReadAccess, softrdma.Wraps: faultReadWrap, softrdma.OutOfBounds: faultReadBounds,
	}
)

// acceptWrite checks token, rights and bounds, in this order. A missing right is
// reported as an invalid STag, for want of a code of its own; of a segment
// without payload nothing is checked.
//
// Source: [RFC 5041 §7], [RFC 5042 §6.3]
func (x *receiver) acceptWrite() error {
	if x.left == 0 {
		return nil
	}
	lease, target, refused := x.c.qp.Initiator.Windows.Resolve(x.seg.stag, x.seg.to, uint64(x.left), rdma.AccessRemoteWrite)
	if refused != softrdma.Granted {
		return x.violation(writeFaults[refused])
	}
	x.lease, x.target = lease, target
	return nil
}

// acceptSend checks the sequence and finds the receive.
//
// Source: [RFC 5041 §7], [RFC 5040 §4.7]
func (x *receiver) acceptSend() error {
	s := &x.seg
	if s.msn != x.msn {
		return x.violation(faultMSN)
	}
	if x.receive == nil {
		if err := x.takeReceive(); err != nil {
			return err
		}
	}
	switch {
	case uint64(s.mo) != uint64(x.at.bytes):
		return x.violation(faultMO)
	case x.left > x.receive.Length-x.at.bytes:
		v := x.violation(faultTooLong)
		v.receive = rdma.StatusBufferOverflow
		return v
	}
	return nil
}

// takeReceive begins the first receive. There may be none, which is an error, or
// in a shared queue a reason to wait.
func (x *receiver) takeReceive() error {
	recv := &x.c.qp.Receives
	recv.Lock()
	r, status := recv.BeginLocked()
	recv.Unlock()
	switch status {
	case rdma.StatusSuccess:
		x.receive, x.at = r, cursor{}
		return nil
	case rdma.StatusPending:
		return errStalled
	}
	return x.violation(faultNoBuffer)
}

// control tells whether the payload of the frame is a header of RDMAP, which is
// looked at when all of it is there.
func (x *receiver) control() bool {
	op := x.seg.opcode()
	return op == opTerminate || op == opReadRequest || op.isImmediate() ||
		op == opAtomicRequest || op == opAtomicResponse
}

// takeControl handles such a payload.
func (x *receiver) takeControl(payload []byte) error {
	switch x.seg.opcode() {
	case opTerminate:
		return remoteTerminate(payload)
	case opReadRequest:
		return x.takeReadRequest(payload)
	case opAtomicRequest:
		return x.takeAtomicRequest(payload)
	case opAtomicResponse:
		return x.takeAtomicResponse(payload)
	}
	x.takeImmediate(payload)
	return nil
}

// finish ends a segment, and with the last one of a Send its receive.
func (x *receiver) finish() error {
	op := x.seg.opcode()
	switch {
	case !x.seg.last(), op == opWrite, op == opReadRequest, op == opAtomicRequest, op.isImmediate():
		return nil
	case x.answering():
		x.finishRead()
		return nil
	case op.invalidates():
		// Only a window can be invalidated from afar: regions are shared by all
		// connections of their adapter.
		if !x.c.qp.Initiator.Windows.Invalidate(x.seg.stag) {
			return x.violation(faultCannotInval)
		}
	}
	x.deliver(&rdma.Result{})
	return nil
}

// deliver ends the receive in progress, whose result has the immediate data of
// with.
func (x *receiver) deliver(with *rdma.Result) {
	with.Bytes, with.Solicited = x.at.bytes, x.seg.opcode().solicits()
	x.receive = nil
	x.msn++
	recv := &x.c.qp.Receives
	recv.Lock()
	recv.FinishLocked(with)
	if x.started && x.r == x.w {
		recv.PushLocked() // nothing follows that could be gathered with it
	} else {
		x.gathered = true
	}
	recv.Unlock()
}

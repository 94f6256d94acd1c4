package iwarp

import (
	"errors"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// violation returns a violation for the segment in progress.
func (x *inFrame) violation(f frame.Fault) *violation {
	return &violation{fault: f, header: x.header[:x.seg.Size()], ulpdu: x.ulpdu}
}

// errStalled reports that a message must wait for a receive of a shared receive queue.
var errStalled = errors.New("no receive in the shared queue yet")

// accept checks the header of a segment and finds the destination of its payload.
//
// Source: [RFC 5041 §7], [RFC 5040 §7], [OP-88]
func (x *receiver) accept() error {
	s := &x.seg
	switch {
	case !s.DDPVersionOK() && s.Tagged():
		return x.violation(frame.FaultTaggedVersion)
	case !s.DDPVersionOK():
		return x.violation(frame.FaultUntaggedVers)
	case !s.RDMAPVersionOK():
		return x.violation(frame.FaultRDMAPVersion)
	case s.Tagged():
		switch s.Opcode() {
		case frame.OpWrite:
			return x.acceptWrite()
		case frame.OpReadResponse:
			return x.acceptReadResponse()
		}
		return x.violation(frame.FaultOpcode)
	}
	switch op := s.Opcode(); {
	case s.QN > frame.QueueAtomicResponse:
		return x.violation(frame.FaultQN)
	case op == frame.OpTerminate:
		return x.acceptTerminate()
	case op == frame.OpReadRequest:
		return x.acceptControl(frame.QueueRequest, x.readMSN, frame.ReadRequestSize)
	case op == frame.OpAtomicRequest:
		return x.acceptControl(frame.QueueRequest, x.readMSN, frame.AtomicRequestSize)
	case op == frame.OpAtomicResponse:
		return x.acceptAtomicResponse()
	case op.IsImmediate():
		return x.acceptImmediate()
	case !op.IsSend():
		return x.violation(frame.FaultOpcode)
	case s.QN != frame.QueueSend:
		return x.violation(frame.FaultQN)
	}
	return x.acceptSend()
}

// acceptTerminate checks the header of a Terminate, the only message of queue 2.
func (x *inFrame) acceptTerminate() error {
	switch s := &x.seg; {
	case s.QN != frame.QueueTerminate:
		return x.violation(frame.FaultQN)
	case s.MSN != 1:
		return x.violation(frame.FaultMSN)
	case s.MO != 0:
		return x.violation(frame.FaultMO)
	}
	return nil
}

// writeFaults and readFaults are the faults for a refused write and a refused read.
var (
	writeFaults = [...]frame.Fault{
		softrdma.BadToken: frame.FaultSTag, softrdma.Denied: frame.FaultSTag, softrdma.Wraps: frame.FaultWrap, softrdma.OutOfBounds: frame.FaultBounds,
	}
	readFaults = [...]frame.Fault{
		softrdma.BadToken: frame.FaultReadSTag, softrdma.Denied: frame.FaultReadAccess, softrdma.Wraps: frame.FaultReadWrap, softrdma.OutOfBounds: frame.FaultReadBounds,
	}
)

// acceptWrite checks token, rights and bounds, in this order. The RFC has no code for a
// missing right, so it is reported as an invalid STag. A segment without payload is not
// checked.
//
// Source: [RFC 5041 §7], [RFC 5042 §6.3]
func (x *receiver) acceptWrite() error {
	if x.left == 0 {
		return nil
	}
	grant, target, refused := x.c.qp.Initiator.Windows.Resolve(x.seg.STag, x.seg.TO, uint64(x.left), rdma.AccessRemoteWrite)
	if refused != softrdma.Granted {
		return x.violation(writeFaults[refused])
	}
	x.grant, x.target = grant, target
	return nil
}

// acceptSend checks the sequence and finds the receive.
//
// Source: [RFC 5041 §7], [RFC 5040 §4.6]
func (x *receiver) acceptSend() error {
	s := &x.seg
	if s.MSN != x.msn {
		return x.violation(frame.FaultMSN)
	}
	if x.receive == nil {
		if err := x.takeReceive(); err != nil {
			return err
		}
	}
	switch {
	case uint64(s.MO) != uint64(x.at.bytes):
		return x.violation(frame.FaultMO)
	case x.left > x.receive.Length-x.at.bytes:
		v := x.violation(frame.FaultTooLong)
		v.receive = rdma.StatusBufferOverflow
		return v
	}
	return nil
}

// takeReceive begins the first receive. If there is none it fails; with a shared queue
// the message waits.
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
	return x.violation(frame.FaultNoBuffer)
}

// control reports whether the payload of the frame is an RDMAP header. Such a payload is
// handled when it is complete.
func (x *inFrame) control() bool {
	op := x.seg.Opcode()
	return op == frame.OpTerminate || op == frame.OpReadRequest || op.IsImmediate() ||
		op == frame.OpAtomicRequest || op == frame.OpAtomicResponse
}

// takeControl handles a payload that is an RDMAP header.
func (x *receiver) takeControl(payload []byte) error {
	switch x.seg.Opcode() {
	case frame.OpTerminate:
		return remoteTerminate(payload)
	case frame.OpReadRequest:
		return x.takeReadRequest(payload)
	case frame.OpAtomicRequest:
		return x.takeAtomicRequest(payload)
	case frame.OpAtomicResponse:
		return x.takeAtomicResponse(payload)
	}
	x.takeImmediate(payload)
	return nil
}

// finish ends a segment. The last segment of a Send also completes its receive.
func (x *receiver) finish() error {
	op := x.seg.Opcode()
	switch {
	case !x.seg.Last(), op == frame.OpWrite, op == frame.OpReadRequest, op == frame.OpAtomicRequest, op.IsImmediate():
		return nil
	case answers(op):
		x.finishRead()
		return nil
	case op.Invalidates():
		// A peer can invalidate only windows, because all connections of an adapter share
		// its regions.
		if !x.c.qp.Initiator.Windows.Invalidate(x.seg.STag) {
			return x.violation(frame.FaultCannotInval)
		}
	}
	x.deliver(&rdma.Result{})
	return nil
}

// deliver completes the receive in progress. with may have immediate data.
func (x *receiver) deliver(with *rdma.Result) {
	with.Bytes, with.Solicited = x.at.bytes, x.seg.Opcode().Solicits()
	x.receive, x.in.known = nil, true
	x.msn++
	recv := &x.c.qp.Receives
	recv.Lock()
	recv.FinishLocked(with)
	if x.started && x.in.r == x.in.w {
		recv.PushLocked() // no further frame is in the buffer whose result could be pushed with it
	} else {
		x.gathered = true
	}
	recv.Unlock()
}

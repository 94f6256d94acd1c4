package iwarp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// opError returns the error of an operation of this provider.
func opError(op, object string, status rdma.Status, cause error) error {
	return &rdma.Error{Op: "iwarp: " + op, Object: object, Status: status, Err: cause}
}

// errnoStatus maps the errors of socket calls to NetworkDirect's statuses. [ND §8 row 13]
var errnoStatus = []struct {
	errno  syscall.Errno
	status rdma.Status
}{
	{syscall.ECONNREFUSED, rdma.StatusConnectionRefused},
	{syscall.ENETUNREACH, rdma.StatusNetworkUnreachable},
	{syscall.ENETDOWN, rdma.StatusNetworkUnreachable},
	{syscall.EHOSTUNREACH, rdma.StatusHostUnreachable},
	{syscall.EACCES, rdma.StatusNetworkUnreachable},
	{syscall.EINVAL, rdma.StatusNetworkUnreachable},
	{syscall.ETIMEDOUT, rdma.StatusIOTimeout},
	{syscall.EADDRINUSE, rdma.StatusSharingViolation},
	{syscall.EADDRNOTAVAIL, rdma.StatusInvalidAddress},
	{syscall.EMFILE, rdma.StatusInsufficientResources},
	{syscall.ENFILE, rdma.StatusInsufficientResources},
	{syscall.ENOBUFS, rdma.StatusInsufficientResources},
	{syscall.ENOMEM, rdma.StatusNoMemory},
}

// netStatus returns the status for the error of a network call. If no status of the table
// fits, it returns otherwise.
func netStatus(err error, otherwise rdma.Status) rdma.Status {
	for _, e := range errnoStatus {
		if errors.Is(err, e.errno) {
			return e.status
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return rdma.StatusIOTimeout
	}
	return otherwise
}

// isHangup reports whether err means that the peer has closed the connection, or that this
// side has.
func isHangup(err error) bool { return softrdma.IsHangup(err) || errors.Is(err, net.ErrClosed) }

// faultStatus returns the status of a fault for the side that caused it. [ND §8 row 9]
func faultStatus(f frame.Fault) rdma.Status {
	switch {
	case f.IsProtection():
		return rdma.StatusAccessViolation
	case f == frame.FaultCRC:
		return rdma.StatusDataError
	}
	return rdma.StatusRemoteError
}

// TerminateError is the cause of a connection's end when one side found an error of the
// other side. Layer, Type and Code are the numbers of the Terminate message.
//
// Source: [RFC 5040 §4.8]
type TerminateError struct {
	Layer, Type, Code uint8
	// Remote is set if the peer sent the Terminate. Otherwise this side found the error.
	Remote bool

	read bool // it names a read, or no request
}

// Error names the side that sent the Terminate, and the fault.
func (e *TerminateError) Error() string {
	by := "Terminate sent"
	if e.Remote {
		by = "Terminate received"
	}
	return by + ": " + frame.Fault{Layer: e.Layer, Kind: e.Type, Code: e.Code}.String()
}

// remoteTerminate returns the error for a Terminate from the peer.
func remoteTerminate(payload []byte) error {
	t, err := frame.DecodeTerminate(payload)
	if err != nil {
		t.Fault = frame.FaultRDMAPOther
	}
	op, known := t.Opcode()
	about := !known || op == frame.OpReadRequest || op == frame.OpAtomicRequest
	return &TerminateError{Layer: t.Fault.Layer, Type: t.Fault.Kind, Code: t.Fault.Code, Remote: true, read: about}
}

// violation is a violation of the protocol by the peer, with the header of the wrong
// segment.
type violation struct {
	fault   frame.Fault
	header  []byte
	ulpdu   int
	read    []byte      // the wrong Read Request
	receive rdma.Status // of the receive in progress
	reading rdma.Status // of the read that is being answered
}

// Error returns the name of the fault.
func (v *violation) Error() string { return v.fault.String() }

// ending returns the connection's ending for the violation.
func (v *violation) ending(c *conn) *ending {
	status := rdma.StatusRemoteError
	switch {
	case v.receive != rdma.StatusSuccess:
		status = v.receive
	case v.reading != rdma.StatusSuccess:
		status = v.reading
	case v.fault == frame.FaultCRC:
		status = rdma.StatusDataError
	}
	t := frame.TerminateFor(v.fault, v.header, v.ulpdu)
	if v.read != nil && t.Control != 0 {
		t.Control |= frame.TerminateRDMAP
		t.Header = append(bytes.Clone(t.Header), v.read...)
	}
	cause := &TerminateError{Layer: v.fault.Layer, Type: v.fault.Kind, Code: v.fault.Code}
	return &ending{
		err:     opError("connection", c.peer, status, cause),
		term:    &t,
		receive: v.receive,
		reading: v.reading,
	}
}

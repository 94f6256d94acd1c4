package lwio

import (
	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
)

// Status is the NTSTATUS that a server answered with. It is an error, and
// errors.Is maps it to the errors that Go programs test for: fs.ErrNotExist,
// fs.ErrPermission, syscall.ENOSPC and so on.
type Status = ntstatus.Status

// Error is the error of every operation of the package, io.EOF
// excepted. It reads "lwio: OP OBJECT: CAUSE".
//
// Its fields are Op, the operation, such as "dial", "open", "read"; Name, a name in the share
// or an address; Status, the server's answer, 0 if the failure is not an answer; Remote, true
// if the server refused, false if the failure was on this side or on the way; and Err, the
// cause. It implements net.Error, unwraps to its cause, and errors.Is maps Status to the
// errors of io/fs and syscall.
type Error = base.Error

// The conditions that a program may want to tell apart.
var (
	// ErrUncertain: a write, or another change, may or may not have been done,
	// because the connection was lost, or the caller left, before the answer came.
	// [OP-112]
	ErrUncertain = base.ErrUncertain
	// ErrLocked: another client holds a lock in the range.
	ErrLocked = base.ErrLocked
	// ErrSpoofed: the peer of the RDMA connection is not the server that SMB
	// authenticated. [OP-50j]
	ErrSpoofed = base.ErrSpoofed
	// ErrProtocol: the peer broke the protocol.
	ErrProtocol = base.ErrProtocol
	// ErrNoRDMA: RDMA is required and cannot be had.
	ErrNoRDMA = base.ErrNoRDMA
	// ErrNotOffered: the server does not offer a provider.
	ErrNotOffered = base.ErrNotOffered
	// ErrOtherHost: a provider works within one host only, and the server is on
	// another.
	ErrOtherHost = base.ErrOtherHost
)

package lwio

import (
	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
)

// Status is the NTSTATUS of an answer of the server, a uint32. It is an error, and errors.Is
// matches it with the Go errors of the same meaning: fs.ErrNotExist, fs.ErrPermission,
// syscall.ENOSPC and so on.
type Status = ntstatus.Status

// Error is the error of all operations of this package, except io.EOF. Its text is
// "lwio: OP OBJECT: CAUSE". It implements net.Error and unwraps to its cause; errors.Is matches
// its Status with the errors of io/fs and syscall. It has:
//
//   - Op, the operation, such as "dial", "open" or "read".
//   - Name, the object: a name in the share, or an address.
//   - Status, the answer of the server; 0 if there was none.
//   - Remote, true if the server refused, false if the failure was on this side or in the
//     network.
//   - Err, the cause.
type Error = base.Error

// The errors that a program may want to tell apart with errors.Is.
var (
	// ErrUncertain: a write or another change is done or not, and the client cannot know,
	// because the connection was lost or the call was given up before the answer. [OP-112]
	ErrUncertain = base.ErrUncertain
	// ErrStale: the server does not keep the open of the file any more, because the connection was
	// away for longer than the server keeps opens, because the server was restarted (without a
	// state, or another program has removed, replaced or, in spite of a lock, changed the file meanwhile),
	// or because the server has closed it: the user may not use it any more, or a Client with the same
	// Config.AppInstance has opened the file. All later calls of the File fail with it; other files
	// are not affected. It matches fs.ErrClosed. The locks of the file are gone. Nothing was written
	// after the loss.
	ErrStale = base.ErrStale
	// ErrLocked: another File or client holds a lock in the range.
	ErrLocked = base.ErrLocked
	// ErrSpoofed: the peer of the RDMA connection is not the server that SMB authenticated.
	// [OP-50j]
	ErrSpoofed = base.ErrSpoofed
	// ErrProtocol: the peer broke the protocol.
	ErrProtocol = base.ErrProtocol
	// ErrNoRDMA: RDMA is required, and there is no RDMA connection.
	ErrNoRDMA = base.ErrNoRDMA
	// ErrNotOffered: the server does not offer the provider.
	ErrNotOffered = base.ErrNotOffered
	// ErrOtherHost: the provider works within one host, and the server is on another one.
	ErrOtherHost = base.ErrOtherHost
)

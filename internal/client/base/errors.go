package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"lwio/internal/ntstatus"
)

// Status is the NTSTATUS of an answer of the server. It is an error, and errors.Is matches it with
// the Go errors of the same meaning: fs.ErrNotExist, fs.ErrPermission, syscall.ENOSPC and so on.
type Status = ntstatus.Status

// Error is the error of all operations of package lwio, except io.EOF. Its text is
// "lwio: OP OBJECT: CAUSE".
type Error struct {
	// Op is the operation: "dial", "open", "read".
	Op string
	// Name is the object: a name in the share, or an address.
	Name string
	// Status is the answer of the server; 0 if there was none.
	Status Status
	// Remote is true if the server refused, false if the failure was on this side
	// or on the way.
	Remote bool
	// Err is the cause.
	Err error
}

// Error returns operation, object and cause.
func (e *Error) Error() string {
	s := "lwio: " + e.Op
	if e.Name != "" {
		s += " " + e.Name
	}
	switch {
	case e.Remote:
		s += ": " + describe(e.Status)
	case e.Err != nil:
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e.Err == nil && e.Status != 0 {
		return e.Status
	}
	return e.Err
}

// Is reports whether a lock prevented the call, for ErrLocked, whether time ran out, for
// os.ErrDeadlineExceeded, and whether the server has closed the file, for ErrStale.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrLocked:
		return e.Status == ntstatus.LockNotGranted || e.Status == ntstatus.FileLockConflict
	case os.ErrDeadlineExceeded:
		return e.Timeout()
	case ErrStale:
		return e.Status == ntstatus.FileClosed
	}
	return false
}

// Timeout reports whether time ran out. It makes Error a net.Error.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Temporary returns false. It makes Error a net.Error.
func (e *Error) Temporary() bool { return false }

// The errors that a program may want to tell apart; package lwio exports them.
var (
	// ErrUncertain: a write or another change is done or not, and the client cannot know,
	// because the connection was lost or the call was given up before the answer. [OP-112]
	ErrUncertain = errors.New("outcome uncertain")
	// ErrStale: the server does not keep the open of the file any more, because the connection was
	// away for too long, or because the server has closed it. It matches fs.ErrClosed.
	ErrStale error = staleError{}
	// ErrLocked: another File or client holds a lock in the range.
	ErrLocked = errors.New("locked by another client")
	// ErrSpoofed: the peer of the RDMA connection is not the server that SMB
	// authenticated. [OP-50j]
	ErrSpoofed = errors.New("spoofing: the RDMA peer is not the server that SMB authenticated")
	// ErrProtocol: the peer broke the protocol.
	ErrProtocol = errors.New("protocol error")
	// ErrNoRDMA: RDMA is required, and there is no RDMA connection.
	ErrNoRDMA = errors.New("no RDMA")
	// ErrNotOffered: the server does not offer the provider.
	ErrNotOffered = errors.New("the server does not offer it")
	// ErrLWIOOff: the server offers SMB alone. It matches ErrNotOffered.
	ErrLWIOOff error = offError{}
	// ErrOtherHost: the provider works within one host, and the server is on another one.
	ErrOtherHost = errors.New("the server is on another host")
)

// staleError is the class of ErrStale.
type staleError struct{}

func (staleError) Error() string        { return "the server does not keep the file open any more" }
func (staleError) Is(target error) bool { return target == fs.ErrClosed }

// ErrClientClosed is the error of a call on a closed client, or on a file of it.
var ErrClientClosed = fmt.Errorf("the client is closed: %w", net.ErrClosed)

// lostError is the end of an RDMA connection. It matches net.ErrClosed and its cause.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	if e.cause == nil {
		return "connection lost"
	}
	return "connection lost: " + e.cause.Error()
}

func (e *lostError) Is(target error) bool { return target == net.ErrClosed }

func (e *lostError) Unwrap() error { return e.cause }

// uncertainError is ErrUncertain with its cause.
type uncertainError struct{ cause error }

func (e *uncertainError) Error() string { return ErrUncertain.Error() + ": " + e.cause.Error() }

func (e *uncertainError) Unwrap() []error { return []error{ErrUncertain, e.cause} }

// Reasons are the causes of one failure, in the order of their occurrence. The text leaves out a
// cause whose text is part of another one.
type Reasons []error

func (r Reasons) Error() string {
	var said []string
	for i, e := range r {
		text := e.Error()
		again := slices.ContainsFunc(r[i+1:], func(o error) bool { return strings.Contains(o.Error(), text) })
		if !again && !strings.Contains(strings.Join(said, "; "), text) {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}

func (r Reasons) Unwrap() []error { return r }

// ProtocolError returns ErrProtocol with the violation of the peer.
func ProtocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProtocol, fmt.Errorf(format, args...))
}

// Wrap makes an *Error of err, unless it is nil, io.EOF, or one already.
func Wrap(op, name string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // bare io.EOF is part of the contract of io.ReaderAt
		return err
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	e = &Error{Op: op, Name: name, Err: err}
	if name == "" {
		e.Name = "."
	}
	var s ntstatus.Status
	if errors.As(err, &s) {
		e.Status, e.Remote = s, !errors.Is(err, net.ErrClosed) && !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNoRDMA)
	}
	return e
}

// words are the meanings of the commonest statuses.
var words = map[Status]string{
	ntstatus.AccessDenied:        "permission denied",
	ntstatus.AccountLockedOut:    "too many wrong passwords, for now; try again in a minute",
	ntstatus.BadNetworkName:      "no such share",
	ntstatus.CannotDelete:        "cannot be deleted",
	ntstatus.DirectoryNotEmpty:   "directory not empty",
	ntstatus.DiskFull:            "no space left at the server",
	ntstatus.FileIsADirectory:    "is a directory",
	ntstatus.FileClosed:          "the server has closed the file",
	ntstatus.FileTooLarge:        "file too large",
	ntstatus.FileLockConflict:    "locked by another client",
	ntstatus.InvalidLockRange:    "no file has such a range",
	ntstatus.InvalidParameter:    "invalid argument",
	ntstatus.LockNotGranted:      "locked by another client",
	ntstatus.RangeNotLocked:      "not locked",
	ntstatus.LogonFailure:        "wrong user name or password",
	ntstatus.MediaWriteProtected: "the share is read-only",
	ntstatus.NotADirectory:       "not a directory",
	ntstatus.ObjectNameCollision: "file exists",
	ntstatus.ObjectNameInvalid:   "the server does not take this name",
	ntstatus.ObjectNameNotFound:  "no such file or directory",
	ntstatus.ObjectPathNotFound:  "no such directory",
	ntstatus.SharingViolation:    "in use by another program",
	ntstatus.DeletePending:       "is being deleted",
	ntstatus.TooManyOpenedFiles:  "too many open files at the server",
	ntstatus.UnexpectedIOError:   "input/output error at the server",
}

// offError is an ErrNotOffered of all providers.
type offError struct{}

func (offError) Error() string        { return "LWIO is off at the server" }
func (offError) Is(target error) bool { return target == ErrNotOffered }

func describe(s Status) string {
	if w, ok := words[s]; ok {
		return w + " (" + s.Error() + ")"
	}
	return s.Error()
}

// IsLost reports whether err is the end of an RDMA connection.
func IsLost(err error) bool {
	if err == nil {
		return false // without the allocation that errors.As needs
	}
	var lost *lostError
	return errors.As(err, &lost)
}

// IsUncertain reports whether err is ErrUncertain.
func IsUncertain(err error) bool { return errors.Is(err, ErrUncertain) }

// Uncertain is the error of a change whose outcome is unknown because of cause. It is
// ErrUncertain and its cause.
func Uncertain(cause error) error { return &uncertainError{cause} }

// Lost is the error of a connection that ended for cause. It is net.ErrClosed and its cause.
func Lost(cause error) error { return &lostError{cause} }

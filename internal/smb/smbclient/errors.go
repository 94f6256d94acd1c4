package smbclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"lwio/internal/ntstatus"
)

// Why a session cannot be had, or was given up.
var (
	// ErrProtocol says that the server's answer breaks the protocol.
	ErrProtocol = errors.New("the server broke the protocol")
	// ErrSignature says that an answer was not signed, or not by the server.
	ErrSignature = errors.New("wrong or missing signature")
	// ErrDowngrade says that what the server says it negotiated is not what this
	// side saw: somebody on the way changed it.
	ErrDowngrade = errors.New("negotiation was tampered with")
	// ErrEncryption says that the server insists on encryption.
	ErrEncryption = errors.New("the server requires encryption, which is not supported")
	// ErrGuest says that the server let in a guest instead of the user.
	ErrGuest = errors.New("the server granted guest access only")
	// ErrDialect says that the server speaks no dialect that was offered.
	ErrDialect = errors.New("no common dialect")
)

// ErrUnanswered says that a request was sent, and that no answer tells what became of it.
var ErrUnanswered = errors.New("unanswered")

// Error reports a failed operation.
type Error struct {
	// Op is the operation, Name the file, share or server.
	Op, Name string
	// Status is what the server answered, or Success if it is not the server that
	// refused.
	Status ntstatus.Status
	// Err is the cause if Status is Success.
	Err error
}

// Error formats the failure as operation, name and cause.
func (e *Error) Error() string {
	return "smb " + e.Op + " " + e.Name + ": " + e.Unwrap().Error()
}

// Unwrap gives the server's status, an ntstatus.Status, or else the cause.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return e.Status
}

// Timeout reports whether time ran out.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary is false: a failed operation is not worth repeating as it is.
func (e *Error) Temporary() bool { return false }

var _ net.Error = (*Error)(nil)

// fail makes an *Error, or nil for nil. The root of a share is called ".", and the
// end of a context's time what it is here: an answer that did not come.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	err = timely(err)
	if name == "" {
		name = "."
	}
	e := &Error{Op: op, Name: name, Err: err}
	if st, ok := err.(ntstatus.Status); ok { //nolint:errorlint // only the status itself becomes the Status
		e.Status, e.Err = st, nil
	}
	return e
}

// timely says of the end of a context's time what it is here.
func timely(err error) error {
	if err == context.DeadlineExceeded { //nolint:errorlint // what wraps it has words of its own
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return err
}

// unansweredError is ErrUnanswered in the words of its cause.
type unansweredError struct{ cause error }

func (e *unansweredError) Error() string { return e.cause.Error() }

func (e *unansweredError) Unwrap() []error { return []error{ErrUnanswered, e.cause} }

// lostError says why there is no connection any more. It is net.ErrClosed.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	if errors.Is(e.cause, net.ErrClosed) {
		return e.cause.Error()
	}
	return "connection lost: " + e.cause.Error()
}

func (e *lostError) Unwrap() []error { return []error{net.ErrClosed, e.cause} }

// overError says that the server refused what this side's LOGOFF was faster than. It is
// net.ErrClosed, and not what the status is elsewhere.
type overError struct{ status ntstatus.Status }

func (e overError) Error() string { return "the session was closed (" + e.status.Error() + ")" }

func (overError) Unwrap() error { return net.ErrClosed }

// errLeft says that the server has closed the connection.
var errLeft = errors.New("the server closed it")

// errTimeout says that Config.Timeout has passed.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "no answer in time" }
func (timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }

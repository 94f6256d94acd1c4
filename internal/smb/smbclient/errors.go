package smbclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"lwio/internal/ntstatus"
)

// Reasons for which a session fails.
var (
	// ErrProtocol reports a response that violates the protocol.
	ErrProtocol = errors.New("the server broke the protocol")
	// ErrSignature reports a response without a valid signature of the server.
	ErrSignature = errors.New("wrong or missing signature")
	// ErrDowngrade reports that the two sides disagree about the negotiation: it was
	// modified on the way.
	ErrDowngrade = errors.New("negotiation was tampered with")
	// ErrEncryption reports that encryption is required, by the configuration, the server or the
	// share, and that the server does not encrypt.
	ErrEncryption = errors.New("encryption is required, and the server does not encrypt")
	// ErrGuest reports a server that granted guest access only.
	ErrGuest = errors.New("the server granted guest access only")
	// ErrDialect reports a server that speaks none of the offered dialects.
	ErrDialect = errors.New("no common dialect")
)

// ErrUnknownOutcome reports a change that was sent; no response says whether the server
// executed it.
var ErrUnknownOutcome = errors.New("unknown outcome")

// Error reports why a session or a tree connect failed. Operations on trees and files
// return the cause itself.
type Error struct {
	// Op is the operation, Name the server or share.
	Op, Name string
	// Status is the refusal of the server; Success if there is another cause.
	Status ntstatus.Status
	// Err is the cause if Status is Success.
	Err error
}

// Error formats the failure as operation, name and cause.
func (e *Error) Error() string {
	return "smb " + e.Op + " " + e.Name + ": " + e.Unwrap().Error()
}

// Unwrap returns the server's status, an ntstatus.Status, or else the cause.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return e.Status
}

// Timeout reports whether the cause is a timeout.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary returns false: a repetition would fail too.
func (e *Error) Temporary() bool { return false }

var _ net.Error = (*Error)(nil)

// fail returns an *Error for err, nil for nil.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	err = timely(err)
	e := &Error{Op: op, Name: name, Err: err}
	if st, ok := err.(ntstatus.Status); ok { //nolint:errorlint // only the status itself becomes the Status
		e.Status, e.Err = st, nil
	}
	return e
}

// timely turns the deadline of a context into errTimeout, and wraps the deadline error.
func timely(err error) error {
	if err == context.DeadlineExceeded { //nolint:errorlint // an error that wraps it has a text of its own
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return err
}

// unknownOutcomeError is ErrUnknownOutcome with the text of its cause.
type unknownOutcomeError struct{ cause error }

func (e *unknownOutcomeError) Error() string { return e.cause.Error() }

func (e *unknownOutcomeError) Unwrap() []error { return []error{ErrUnknownOutcome, e.cause} }

// loggedOffError reports a request that the server refused because LOGOFF came first. It
// wraps net.ErrClosed and not the status, because the status has another meaning in other
// requests.
type loggedOffError struct{ status ntstatus.Status }

func (e loggedOffError) Error() string { return "the session was closed (" + e.status.Error() + ")" }

func (loggedOffError) Unwrap() error { return net.ErrClosed }

// errTimeout reports that Config.Timeout has passed.
var errTimeout net.Error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "no response in time" }
func (timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return false }

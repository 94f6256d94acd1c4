package wire

import (
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
)

// Error is a violation in a peer's message, and its consequence:
//
//	Terminate  Status
//	true       0          the connection ends at once
//	true       a failure  the sender gets the status, then the connection ends
//	false      a failure  the sender gets the status, and may go on
//
// Source: [OP-27], [OP-50c], [OP-63]
type Error struct {
	// Message is the message or structure, as the protocol text spells it.
	Message string
	// Reason describes the violation.
	Reason string
	// Status is the answer; Success if there is none.
	Status ntstatus.Status
	// Terminate ends the connection (or the pipe).
	Terminate bool
}

// Error names the message and the reason.
func (e *Error) Error() string {
	if e.Status == ntstatus.Success {
		return e.Message + ": " + e.Reason
	}
	return e.Message + ": " + e.Reason + " (" + e.Status.Error() + ")"
}

// Unwrap gives the status, if the error has one, so that errors.Is and
// ntstatus.Of see it.
func (e *Error) Unwrap() error { return e.Status.Err() }

// Terminates reports whether err ends the connection. Errors that are no *Error
// do, nil does not.
func Terminates(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Terminate
	}
	return err != nil
}

// cut is an error that ends the connection without an answer.
func cut(message, format string, args ...any) error {
	return &Error{Message: message, Reason: fmt.Sprintf(format, args...), Terminate: true}
}

// refuse is an error that is answered with a status.
func refuse(message string, status ntstatus.Status, format string, args ...any) error {
	return &Error{Message: message, Reason: fmt.Sprintf(format, args...), Status: status}
}

// deny is an error that is answered with ACCESS_DENIED before the connection ends.
func deny(message, format string, args ...any) error {
	return &Error{
		Message: message, Reason: fmt.Sprintf(format, args...),
		Status: ntstatus.AccessDenied, Terminate: true,
	}
}

// wrongSize is the error of a structure of fixed size that has another one.
func wrongSize(message string, got, want int) error {
	return cut(message, "%d bytes instead of %d", got, want)
}

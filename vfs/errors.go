package vfs

import (
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
)

// Error is the failure of an operation. errors.Is and errors.As see the status and the cause. The data
// path returns END_OF_FILE and FILE_CLOSED without an Error, because they are not faults.
type Error struct {
	// Op is a verb: open, read, rename, ...
	Op string
	// Name is share and path, separated by a slash.
	Name string
	// Status is the status for the peer.
	Status ntstatus.Status
	// Err is the cause, or nil if the status is the whole cause.
	Err error
}

// Error gives operation, object and cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("vfs: %s %s: %v", e.Op, e.Name, e.Status)
	}
	return fmt.Sprintf("vfs: %s %s: %v: %v", e.Op, e.Name, e.Status, e.Err)
}

// Unwrap gives the status and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Status}
	}
	return []error{e.Status, e.Err}
}

// fail makes an *Error of err, which may be a bare status. nil stays nil.
func fail(op, share, path string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Name: share + "/" + path, Status: ntstatus.Of(err), Err: err}
	if _, bare := err.(ntstatus.Status); bare { //nolint:errorlint // a status itself, which has no cause
		e.Err = nil
	}
	return e
}

// because returns a status with a cause for the log.
func because(s ntstatus.Status, reason string) error { return s.Because(errors.New(reason)) }

// errRaced reports that the name changed between two steps of an open. The open starts again.
var errRaced = errors.New("vfs: changed by another process meanwhile")

// discard closes an unused handle and returns err.
func discard(h Handle, err error) error {
	if e := h.Close(); e != nil {
		return errors.Join(err, e)
	}
	return err
}

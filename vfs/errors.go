package vfs

import (
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
)

// Error says which operation failed, on what, with which NT status, and why.
// errors.Is and errors.As see the status and the cause. The two statuses of the
// data path that are no fault, end of file and closed, come bare.
type Error struct {
	// Op is a verb: open, read, rename, ...
	Op string
	// Name is share and path, separated by a slash.
	Name string
	// Status is what a peer is told.
	Status ntstatus.Status
	// Err is the cause, or nil if the status says it all.
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
	var r *refusal
	switch {
	case errors.As(err, &r):
		e.Err = r.err
	case errors.As(err, new(ntstatus.Status)):
		e.Err = nil
	}
	return e
}

// refusal is a status with what led to it.
type refusal struct {
	status ntstatus.Status
	err    error
}

func (r *refusal) Error() string   { return fmt.Sprintf("%v: %v", r.status, r.err) }
func (r *refusal) Unwrap() []error { return []error{r.status, r.err} }

// because makes a status with a reason that a human can read.
func because(s ntstatus.Status, reason string) error {
	return &refusal{status: s, err: errors.New(reason)}
}

// errRaced says that somebody else changed the name between two steps of an
// open, which must then start again.
var errRaced = errors.New("vfs: changed by somebody else meanwhile")

// discard closes a handle that nobody will get because of err, and returns err.
func discard(h Handle, err error) error {
	if e := h.Close(); e != nil {
		return errors.Join(err, e)
	}
	return err
}

package smbwire

import (
	"errors"

	"lwio/internal/ntstatus"
)

// Faults of the bytes of a peer.
var (
	// ErrShort reports a message that ends before its last field.
	ErrShort = errors.New("too short")
	// ErrStructureSize reports a structure that names another size than its own.
	ErrStructureSize = errors.New("wrong structure size")
	// ErrOffset reports an offset or length that points out of the message, or into its
	// fixed part.
	ErrOffset = errors.New("offset or length outside the message")
	// ErrValue reports a field with an invalid value.
	ErrValue = errors.New("invalid value")
	// ErrName reports a name that cannot be represented: NUL, an unpaired surrogate,
	// invalid UTF-8, an odd number of bytes, or too long.
	ErrName = errors.New("name cannot be represented")
	// ErrProtocol reports bytes that are no SMB 2 message.
	ErrProtocol = errors.New("not an SMB 2 message")
	// ErrSMB1 reports a message of SMB 1.
	ErrSMB1 = errors.New("SMB 1 is not supported")
	// ErrEncrypted reports an encrypted message (a transform header) where another header is
	// due.
	ErrEncrypted = errors.New("the message is encrypted")
	// ErrCompressed reports a compressed message.
	ErrCompressed = errors.New("compressed messages are not supported")
)

// Error reports a structure that cannot be decoded.
type Error struct {
	// Structure is the message or structure, Field the faulty field, empty for the whole.
	Structure, Field string
	// Err is one of the sentinels of this package.
	Err error
}

// Error formats the failure as structure, field and cause.
func (e *Error) Error() string {
	if e.Field == "" {
		return "smbwire: " + e.Structure + ": " + e.Err.Error()
	}
	return "smbwire: " + e.Structure + ": " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the sentinel and the NTSTATUS of a server's response.
func (e *Error) Unwrap() []error {
	if errors.Is(e.Err, ErrName) {
		return []error{e.Err, ntstatus.ObjectNameInvalid}
	}
	return []error{e.Err, ntstatus.InvalidParameter}
}

func fault(structure, field string, err error) error {
	return &Error{Structure: structure, Field: field, Err: err}
}

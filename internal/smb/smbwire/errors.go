package smbwire

import (
	"errors"

	"lwio/internal/ntstatus"
)

// What is wrong with bytes that a peer sent.
var (
	// ErrShort says that a message ends before what it must hold.
	ErrShort = errors.New("too short")
	// ErrStructureSize says that a structure names another size than its own.
	ErrStructureSize = errors.New("wrong structure size")
	// ErrOffset says that an offset or length leads out of the message, or into
	// its fixed part.
	ErrOffset = errors.New("offset or length outside the message")
	// ErrValue says that a field has a value that it cannot have.
	ErrValue = errors.New("invalid value")
	// ErrName says that a name cannot be carried: NUL, an unpaired surrogate,
	// invalid UTF-8, an odd number of bytes, or too long.
	ErrName = errors.New("name cannot be represented")
	// ErrProtocol says that the bytes are no SMB 2 message at all.
	ErrProtocol = errors.New("not an SMB 2 message")
	// ErrSMB1 says that the message is SMB 1.
	ErrSMB1 = errors.New("SMB 1 is not supported")
	// ErrEncrypted says that the message is encrypted (a transform header).
	ErrEncrypted = errors.New("encrypted messages are not supported")
	// ErrCompressed says that the message is compressed.
	ErrCompressed = errors.New("compressed messages are not supported")
)

// Error says which structure could not be decoded, and why.
type Error struct {
	// Structure is the message or structure, Field what of it is wrong, empty for
	// the whole.
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

// Unwrap gives the sentinel and the NTSTATUS that a server answers with.
func (e *Error) Unwrap() []error {
	if errors.Is(e.Err, ErrName) {
		return []error{e.Err, ntstatus.ObjectNameInvalid}
	}
	return []error{e.Err, ntstatus.InvalidParameter}
}

func fault(structure, field string, err error) error {
	return &Error{Structure: structure, Field: field, Err: err}
}

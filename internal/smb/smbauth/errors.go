package smbauth

import (
	"errors"
	"strconv"

	"lwio/internal/ntstatus"
)

var (
	// ErrToken says that a token of the peer does not have the form that
	// NTLM or SPNEGO prescribes, or came out of turn.
	ErrToken = errors.New("malformed or unexpected authentication token")

	// ErrMechanism says that the peers have no mechanism in common.
	ErrMechanism = errors.New("no common authentication mechanism")

	// ErrWeak says that the peer offered only what this package refuses: LM,
	// NTLMv1, no extended session security, or keys below 128 bits.
	ErrWeak = errors.New("authentication too weak")

	// ErrAnonymous says that the peer asked for an anonymous logon.
	ErrAnonymous = errors.New("anonymous logon refused")

	// ErrCredentials says that the user is unknown or the password wrong.
	// The two cannot be told apart.
	ErrCredentials = errors.New("unknown user or wrong password")

	// ErrIntegrity says that a message integrity code does not match: a token
	// was changed on its way.
	ErrIntegrity = errors.New("integrity check of authentication tokens failed")
)

// Error reports a failed authentication. Domain and User are what the peer
// claims, empty before it claimed anything; they are not proven and not
// cleaned of control characters.
type Error struct {
	Op     string
	Domain string
	User   string
	Err    error
}

// Error formats the failure as operation, user and cause.
func (e *Error) Error() string {
	s := "smbauth: " + e.Op
	if e.User != "" {
		s += " of " + strconv.Quote(e.Domain+`\`+e.User)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the sentinel and the NTSTATUS that SMB reports for it.
func (e *Error) Unwrap() []error { return []error{e.Err, statusOf(e.Err)} }

// statusOf maps a sentinel to the status of a SESSION_SETUP response.
//
// Source: [MS-SMB2 3.3.5.5.3]
func statusOf(err error) ntstatus.Status {
	switch {
	case errors.Is(err, ErrToken), errors.Is(err, ErrMechanism):
		return ntstatus.InvalidParameter
	case errors.Is(err, ErrAnonymous), errors.Is(err, ErrIntegrity):
		return ntstatus.AccessDenied
	default:
		return ntstatus.LogonFailure
	}
}

package smbauth

import (
	"errors"
	"strconv"

	"lwio/internal/ntstatus"
)

var (
	// ErrToken reports a token that does not have the form of NTLM or SPNEGO, or that
	// arrived out of order.
	ErrToken = errors.New("malformed or unexpected authentication token")

	// ErrMechanism reports peers without a common mechanism.
	ErrMechanism = errors.New("no common authentication mechanism")

	// ErrWeak reports a peer that offers only refused forms: LM, NTLMv1, no extended
	// session security, or keys below 128 bits.
	ErrWeak = errors.New("authentication too weak")

	// ErrAnonymous reports an anonymous logon.
	ErrAnonymous = errors.New("anonymous logon refused")

	// ErrCredentials reports an unknown user or a wrong password, without a difference
	// between the two; or a principal of Kerberos that is no user.
	ErrCredentials = errors.New("unknown user or wrong password")

	// ErrIntegrity reports a message integrity code that does not match: a token was
	// modified on the way.
	ErrIntegrity = errors.New("integrity check of authentication tokens failed")

	// ErrDecryption reports an encrypted message that was modified on the way, or that has
	// another key or session.
	ErrDecryption = errors.New("decryption failed")
)

// Error reports a failed authentication. Domain and User are the claims of the peer, empty
// before it has made any; they are not proven and may contain control characters.
type Error struct {
	Op     string
	Domain string
	User   string
	Err    error

	status ntstatus.Status // of the response of a server; zero for a client
}

// Error formats the failure as operation, user and cause.
func (e *Error) Error() string {
	s := "smbauth: " + e.Op
	if e.User != "" {
		s += " of " + strconv.Quote(e.Domain+`\`+e.User)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the sentinel and, on the server's side, the NTSTATUS that SMB reports for it.
func (e *Error) Unwrap() []error {
	if e.status == 0 {
		return []error{e.Err}
	}
	return []error{e.Err, e.status}
}

// statusOf maps a sentinel to the status of a SESSION_SETUP response.
//
// Source: [MS-SMB2 3.3.5.5.3]
func statusOf(err error) ntstatus.Status {
	switch {
	case errors.Is(err, ErrToken), errors.Is(err, ErrMechanism):
		return ntstatus.InvalidParameter
	case errors.Is(err, ErrAnonymous), errors.Is(err, ErrIntegrity):
		return ntstatus.AccessDenied
	case errors.Is(err, ErrSkew):
		return ntstatus.TimeDifferenceAtDC
	default:
		return ntstatus.LogonFailure
	}
}

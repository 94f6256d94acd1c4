package verbs

import (
	"context"
	"errors"
	"os"
	"strconv"

	"lwio/rdma"
)

// Error is what the functions of this package return when they fail, but for
// [IOIncomplete], which comes bare.
type Error struct {
	// Op is the operation, as "send".
	Op string
	// Object names what it was about, such as an address; it may be empty.
	Object string
	// Errno is the code.
	Errno Errno
	// Need is how many bytes of room the descriptor of RegisterRdmaMemory takes,
	// where there were fewer; else 0.
	Need int
	// Err is the provider's error, or that of a context, if there is one.
	Err error
}

// Error says operation, object, code and cause.
func (e *Error) Error() string {
	s := "verbs: " + e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Errno.Error()
	if e.Need > 0 {
		s += ": needs " + strconv.Itoa(e.Need) + " bytes"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the code and the cause to errors.Is and errors.As. The cause of
// ETIMEDOUT may be a refusal: Errno is what counts.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Errno}
	}
	return []error{e.Errno, e.Err}
}

// Timeout reports whether the operation ran out of time, as net.Error asks.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary is always false; it is there for net.Error.
func (e *Error) Temporary() bool { return false }

// ErrnoOf is the code that err wraps: 0 for nil, and ENETDOWN for an error that has
// none.
func ErrnoOf(err error) Errno {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Errno
	}
	var n Errno
	if errors.As(err, &n) {
		return n
	}
	return ENETDOWN
}

// failed turns an error of the provider into one of this package.
func failed(op, object string, err error) error {
	return &Error{Op: op, Object: object, Errno: errnoOf(rdma.StatusOf(err)), Err: err}
}

// errnos says what the statuses of a provider are here.
var errnos = map[rdma.Status]Errno{
	rdma.StatusBufferOverflow:           EMSGSIZE,
	rdma.StatusDataOverrun:              EINVAL,
	rdma.StatusDeviceBusy:               EINVAL,
	rdma.StatusNoMoreEntries:            ENOBUFS,
	rdma.StatusInsufficientResources:    ENOBUFS,
	rdma.StatusNoMemory:                 ENOBUFS,
	rdma.StatusAccessViolation:          EFAULT,
	rdma.StatusInvalidParameter:         EINVAL,
	rdma.StatusInvalidParameterMix:      EINVAL,
	rdma.StatusInvalidBufferSize:        EINVAL,
	rdma.StatusInvalidDeviceState:       EINVAL,
	rdma.StatusNotSupported:             EOPNOTSUPP,
	rdma.StatusInvalidHandle:            ENOTSOCK,
	rdma.StatusCanceled:                 OperationAborted,
	rdma.StatusTimeout:                  ETIMEDOUT,
	rdma.StatusIOTimeout:                ETIMEDOUT,
	rdma.StatusConnectionRefused:        ECONNREFUSED,
	rdma.StatusConnectionAborted:        ECONNABORTED,
	rdma.StatusConnectionInvalid:        ENOTCONN,
	rdma.StatusConnectionActive:         EISCONN,
	rdma.StatusNetworkUnreachable:       ENETUNREACH,
	rdma.StatusHostUnreachable:          EHOSTUNREACH,
	rdma.StatusBadNetworkName:           EHOSTUNREACH,
	rdma.StatusInvalidAddress:           EADDRNOTAVAIL,
	rdma.StatusTooManyAddresses:         EADDRNOTAVAIL,
	rdma.StatusSharingViolation:         EADDRINUSE,
	rdma.StatusAddressAlreadyExists:     EADDRINUSE,
	rdma.StatusAddressAlreadyAssociated: EINVAL,
	rdma.StatusRemoteError:              ECONNRESET,
}

// errnoOf is the code of a status; ENETDOWN is that of all others.
func errnoOf(s rdma.Status) Errno {
	if e, ok := errnos[s]; ok {
		return e
	}
	if rdma.StatusInvalidParameter == s || errors.Is(s, rdma.StatusInvalidParameter) {
		return EINVAL
	}
	return ENETDOWN
}

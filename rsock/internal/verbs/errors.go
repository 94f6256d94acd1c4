package verbs

import (
	"context"
	"errors"
	"os"
	"strconv"

	"lwio/rdma"
)

// Error is the error of the functions of this package. Only [IOIncomplete] is returned
// without it.
type Error struct {
	// Op is the operation, such as "send".
	Op string
	// Object is the object of the operation, such as an address; it may be empty.
	Object string
	// Errno is the code.
	Errno Errno
	// Need is the size of the descriptor of RegisterRdmaMemory, in bytes, if the room
	// for it was too small; otherwise 0.
	Need int
	// Err is the error of the provider or of a context; it may be nil.
	Err error
}

// Error returns operation, object, code and cause.
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

// Unwrap returns the code and the cause. The cause of ETIMEDOUT may be a refusal; callers go
// by Errno.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Errno}
	}
	return []error{e.Errno, e.Err}
}

// Timeout reports whether a time limit was exceeded. It makes Error a net.Error.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary returns false. It makes Error a net.Error.
func (e *Error) Temporary() bool { return false }

// ErrnoOf returns the code that err wraps: 0 for nil, and ENETDOWN for an error without
// one.
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

// failed returns an error of the provider as an Error.
func failed(op, object string, err error) error {
	return &Error{Op: op, Object: object, Errno: errnoOf(rdma.StatusOf(err)), Err: err}
}

// errnos are the codes of the statuses of a provider.
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

// errnoOf returns the code of a status, or ENETDOWN for a status without one.
func errnoOf(s rdma.Status) Errno {
	if e, ok := errnos[s]; ok {
		return e
	}
	if rdma.StatusInvalidParameter == s || errors.Is(s, rdma.StatusInvalidParameter) {
		return EINVAL
	}
	return ENETDOWN
}

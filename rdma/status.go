package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Status is the outcome of an operation, with the numbers of NetworkDirect and NTSTATUS.
// It is an error; StatusSuccess is never returned as an error.
//
// Source: [ND Status codes]
type Status uint32

// The statuses of NetworkDirect, and three further statuses that its tests use.
//
// Source: [ND Status codes]
const (
	StatusSuccess                  Status = 0x00000000
	StatusTimeout                  Status = 0x00000102
	StatusPending                  Status = 0x00000103
	StatusBufferOverflow           Status = 0x80000005
	StatusDeviceBusy               Status = 0x80000011
	StatusNoMoreEntries            Status = 0x8000001A
	StatusUnsuccessful             Status = 0xC0000001
	StatusAccessViolation          Status = 0xC0000005
	StatusInvalidHandle            Status = 0xC0000008
	StatusInvalidParameter         Status = 0xC000000D
	StatusInvalidDeviceRequest     Status = 0xC0000010
	StatusNoMemory                 Status = 0xC0000017
	StatusInvalidParameterMix      Status = 0xC0000030
	StatusDataOverrun              Status = 0xC000003C
	StatusDataError                Status = 0xC000003E
	StatusSharingViolation         Status = 0xC0000043
	StatusInsufficientResources    Status = 0xC000009A
	StatusDeviceNotReady           Status = 0xC00000A3
	StatusIOTimeout                Status = 0xC00000B5
	StatusNotSupported             Status = 0xC00000BB
	StatusBadNetworkName           Status = 0xC00000CC
	StatusInternalError            Status = 0xC00000E5
	StatusCanceled                 Status = 0xC0000120
	StatusRemoteError              Status = 0xC000013D
	StatusInvalidAddress           Status = 0xC0000141
	StatusInvalidDeviceState       Status = 0xC0000184
	StatusInvalidBufferSize        Status = 0xC0000206
	StatusTooManyAddresses         Status = 0xC0000209
	StatusAddressAlreadyExists     Status = 0xC000020A
	StatusConnectionRefused        Status = 0xC0000236
	StatusAddressAlreadyAssociated Status = 0xC0000238
	StatusConnectionInvalid        Status = 0xC000023A
	StatusConnectionActive         Status = 0xC000023B
	StatusNetworkUnreachable       Status = 0xC000023C
	StatusHostUnreachable          Status = 0xC000023D
	StatusConnectionAborted        Status = 0xC0000241
	StatusDeviceRemoved            Status = 0xC00002B6
)

// StatusInvalidParameterN returns the status for an invalid parameter n of a call. n is 1
// to 10, as NetworkDirect counts.
func StatusInvalidParameterN(n int) Status { return 0xC00000EF + Status(n-1) }

var statusNames = map[Status]string{
	StatusSuccess:                  "success",
	StatusTimeout:                  "timeout",
	StatusPending:                  "pending",
	StatusBufferOverflow:           "buffer overflow",
	StatusDeviceBusy:               "device busy",
	StatusNoMoreEntries:            "queue full",
	StatusUnsuccessful:             "unsuccessful",
	StatusAccessViolation:          "access violation",
	StatusInvalidHandle:            "invalid handle",
	StatusInvalidParameter:         "invalid parameter",
	StatusInvalidDeviceRequest:     "invalid device request",
	StatusNoMemory:                 "no memory",
	StatusInvalidParameterMix:      "invalid parameter mix",
	StatusDataOverrun:              "too many scatter/gather entries",
	StatusDataError:                "data error",
	StatusSharingViolation:         "address in use",
	StatusInsufficientResources:    "insufficient resources",
	StatusDeviceNotReady:           "device not ready",
	StatusIOTimeout:                "I/O timeout",
	StatusNotSupported:             "not supported",
	StatusBadNetworkName:           "bad network name",
	StatusInternalError:            "internal error",
	StatusCanceled:                 "canceled",
	StatusRemoteError:              "remote error",
	StatusInvalidAddress:           "invalid address",
	StatusInvalidDeviceState:       "invalid device state",
	StatusInvalidBufferSize:        "invalid buffer size",
	StatusTooManyAddresses:         "too many addresses",
	StatusAddressAlreadyExists:     "address already exists",
	StatusConnectionRefused:        "connection refused",
	StatusAddressAlreadyAssociated: "address already associated",
	StatusConnectionInvalid:        "connection invalid",
	StatusConnectionActive:         "connection active",
	StatusNetworkUnreachable:       "network unreachable",
	StatusHostUnreachable:          "host unreachable",
	StatusConnectionAborted:        "connection aborted",
	StatusDeviceRemoved:            "device removed",
}

// Error describes the status.
func (s Status) Error() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	if n := s.param(); n > 0 {
		return fmt.Sprintf("invalid parameter %d", n)
	}
	return fmt.Sprintf("status 0x%08X", uint32(s))
}

// param returns n for StatusInvalidParameterN(n), else 0.
func (s Status) param() int {
	if s >= StatusInvalidParameterN(1) && s <= StatusInvalidParameterN(10) {
		return int(s-StatusInvalidParameterN(1)) + 1
	}
	return 0
}

// Is makes errors.Is(s, target) true for the equivalent Go error: net.ErrClosed,
// os.ErrDeadlineExceeded, errors.ErrUnsupported, and the errno of a refused, aborted or
// unreachable connection or an address in use. All numbered invalid parameters are
// StatusInvalidParameter.
func (s Status) Is(target error) bool {
	if target == StatusInvalidParameter && s.param() > 0 {
		return true
	}
	for _, m := range statusMeanings[s] {
		if m == target {
			return true
		}
	}
	return false
}

// statusMeanings lists the Go errors that each status satisfies under errors.Is.
var statusMeanings = map[Status][]error{
	StatusCanceled:                 {net.ErrClosed},
	StatusTimeout:                  {os.ErrDeadlineExceeded},
	StatusIOTimeout:                {os.ErrDeadlineExceeded},
	StatusConnectionRefused:        {syscall.ECONNREFUSED},
	StatusConnectionAborted:        {syscall.ECONNABORTED, net.ErrClosed},
	StatusConnectionInvalid:        {net.ErrClosed},
	StatusInvalidHandle:            {net.ErrClosed},
	StatusDeviceRemoved:            {net.ErrClosed},
	StatusNetworkUnreachable:       {syscall.ENETUNREACH, StatusBadNetworkName},
	StatusHostUnreachable:          {syscall.EHOSTUNREACH, StatusBadNetworkName},
	StatusSharingViolation:         {syscall.EADDRINUSE},
	StatusAddressAlreadyExists:     {syscall.EADDRINUSE},
	StatusAddressAlreadyAssociated: {syscall.EADDRINUSE},
	StatusNotSupported:             {errors.ErrUnsupported},
}

// Error is the error of a provider's operation.
type Error struct {
	// Op is the operation, as "iwarp: connect".
	Op string
	// Object names the object of the operation, such as an address; it may be empty.
	Object string
	// Status is the outcome in NetworkDirect's terms.
	Status Status
	// Err is the cause, or nil if only the status is known.
	Err error
}

// Error returns operation, object, status and cause.
func (e *Error) Error() string {
	s := e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Status.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the status and the cause. StatusCanceled with a cause matches net.ErrClosed only
// if the cause does: the end of a context closes nothing.
func (e *Error) Unwrap() []error {
	switch {
	case e.Err == nil:
		return []error{e.Status}
	case e.Status == StatusCanceled:
		return []error{canceled{}, e.Err}
	}
	return []error{e.Status, e.Err}
}

// canceled is StatusCanceled without its meaning as a Go error.
type canceled struct{}

func (canceled) Error() string { return StatusCanceled.Error() }

func (canceled) Is(target error) bool { return target == StatusCanceled }

func (canceled) As(target any) bool {
	s, ok := target.(*Status)
	if ok {
		*s = StatusCanceled
	}
	return ok
}

// Timeout reports whether the operation timed out, as net.Error defines.
func (e *Error) Timeout() bool {
	return errors.Is(e.Status, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary is always false; net.Error requires it.
func (e *Error) Temporary() bool { return false }

// CanceledBy returns the error of a control operation that ended with ctx. It is both the
// cause of ctx and StatusCanceled, and not net.ErrClosed.
func CanceledBy(ctx context.Context, op, object string) error {
	return &Error{Op: op, Object: object, Status: StatusCanceled, Err: context.Cause(ctx)}
}

// StatusOf returns the status that err wraps, StatusSuccess for nil, and
// StatusUnsuccessful for an error that wraps none.
func StatusOf(err error) Status {
	if err == nil {
		return StatusSuccess
	}
	var s Status
	if errors.As(err, &s) {
		return s
	}
	return StatusUnsuccessful
}

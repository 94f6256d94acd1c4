package verbs

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"lwio/rdma"
)

// TestErrnoNumbersAndMeanings compares the codes with the numbers of Windows and the errors
// of the system.
//
// Source: [WSD §2.3], [WSD §10]
func TestErrnoNumbersAndMeanings(t *testing.T) {
	for _, c := range []struct {
		code   Errno
		number int
		is     []error
	}{
		{OperationAborted, 995, []error{net.ErrClosed}},
		{IOIncomplete, 996, nil},
		{EACCES, 10013, []error{syscall.EACCES, fs.ErrPermission}},
		{EFAULT, 10014, []error{syscall.EFAULT}},
		{EINVAL, 10022, []error{syscall.EINVAL}},
		{ENOTSOCK, 10038, []error{syscall.ENOTSOCK, net.ErrClosed}},
		{EMSGSIZE, 10040, []error{syscall.EMSGSIZE}},
		{EOPNOTSUPP, 10045, []error{syscall.EOPNOTSUPP, errors.ErrUnsupported}},
		{EADDRINUSE, 10048, []error{syscall.EADDRINUSE}},
		{EADDRNOTAVAIL, 10049, []error{syscall.EADDRNOTAVAIL}},
		{ENETDOWN, 10050, []error{syscall.ENETDOWN}},
		{ENETUNREACH, 10051, []error{syscall.ENETUNREACH}},
		{ECONNABORTED, 10053, []error{syscall.ECONNABORTED, net.ErrClosed}},
		{ECONNRESET, 10054, []error{syscall.ECONNRESET, net.ErrClosed}},
		{ENOBUFS, 10055, []error{syscall.ENOBUFS}},
		{EISCONN, 10056, []error{syscall.EISCONN}},
		{ENOTCONN, 10057, []error{syscall.ENOTCONN, net.ErrClosed}},
		{ETIMEDOUT, 10060, []error{syscall.ETIMEDOUT, os.ErrDeadlineExceeded}},
		{ECONNREFUSED, 10061, []error{syscall.ECONNREFUSED}},
		{EHOSTUNREACH, 10065, []error{syscall.EHOSTUNREACH}},
	} {
		if int(c.code) != c.number || c.code.Error() == "" {
			t.Errorf("%v has number %d, want %d", c.code, c.code, c.number)
		}
		for _, target := range c.is {
			if !errors.Is(error(&Error{Op: "x", Errno: c.code}), target) {
				t.Errorf("%v is not %v", c.code, target)
			}
		}
		for other := range meanings {
			if errors.Is(c.code, other) != (other == c.code) {
				t.Errorf("%v and %v", c.code, other)
			}
		}
	}
	if len(meanings) != 20 || Errno(1).Error() != "winsock error 1" {
		t.Error("codes that no test knows:", len(meanings), Errno(1))
	}
}

// TestStatusesHaveCodes gives every status of a provider a code, and finds the status in
// the error.
func TestStatusesHaveCodes(t *testing.T) {
	for status, want := range map[rdma.Status]Errno{
		rdma.StatusNoMemory:              ENOBUFS,
		rdma.StatusInvalidParameterN(4):  EINVAL,
		rdma.StatusInternalError:         ENETDOWN,
		rdma.StatusDeviceRemoved:         ENETDOWN,
		rdma.StatusRemoteError:           ECONNRESET,
		rdma.StatusAccessViolation:       EFAULT,
		rdma.StatusNotSupported:          EOPNOTSUPP,
		rdma.StatusConnectionInvalid:     ENOTCONN,
		rdma.StatusSharingViolation:      EADDRINUSE,
		rdma.StatusInsufficientResources: ENOBUFS,
	} {
		err := failed("op", "object", &rdma.Error{Op: "inner", Status: status})
		if ErrnoOf(err) != want || !errors.Is(err, status) {
			t.Errorf("%v: %v, want one that is %v", status, err, want)
		}
	}
	err := &Error{Op: "register", Object: "x", Errno: EFAULT, Need: 24, Err: context.DeadlineExceeded}
	if got, want := err.Error(), "verbs: register x: memory that is not registered, or too little of it: needs 24 bytes: context deadline exceeded"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	var timeout net.Error
	if !errors.As(error(err), &timeout) || !timeout.Timeout() || (&Error{Errno: EINVAL}).Timeout() {
		t.Error("timeouts")
	}
	if ErrnoOf(nil) != 0 || ErrnoOf(errors.New("x")) != ENETDOWN || ErrnoOf(IOIncomplete) != IOIncomplete {
		t.Error("codes of other errors")
	}
}

package verbs

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Errno is the code of a failure, in the numbering of Windows Sockets. It is an error.
// errors.Is matches it with the Go error and the errno of the system that have the same
// meaning.
//
// Source: [WSD §2.3]
type Errno uint16

// The codes.
const (
	// OperationAborted: the socket was closed while the request was pending.
	OperationAborted Errno = 995
	// IOIncomplete: the request is still pending.
	IOIncomplete Errno = 996
	// EACCES: the address may not be used.
	EACCES Errno = 10013
	// EFAULT: no registration covers the memory, or the room is too small.
	EFAULT Errno = 10014
	// EINVAL: an argument is wrong, or the object is still in use.
	EINVAL Errno = 10022
	// ENOTSOCK: the socket is closed.
	ENOTSOCK Errno = 10038
	// EMSGSIZE: a message is larger than the provider carries.
	EMSGSIZE Errno = 10040
	// EOPNOTSUPP: the provider lacks the function.
	EOPNOTSUPP Errno = 10045
	// EADDRINUSE: the address is in use.
	EADDRINUSE Errno = 10048
	// EADDRNOTAVAIL: the provider does not have the address.
	EADDRNOTAVAIL Errno = 10049
	// ENETDOWN: the provider or its device failed.
	ENETDOWN Errno = 10050
	// ENETUNREACH: the network cannot be reached.
	ENETUNREACH Errno = 10051
	// ECONNABORTED: the peer gave up before the connection was made.
	ECONNABORTED Errno = 10053
	// ECONNRESET: the connection is gone.
	ECONNRESET Errno = 10054
	// ENOBUFS: no memory, or no room in a queue.
	ENOBUFS Errno = 10055
	// EISCONN: the socket is connected, or was connected before.
	EISCONN Errno = 10056
	// ENOTCONN: the socket is not connected.
	ENOTCONN Errno = 10057
	// ETIMEDOUT: no connection was made; TCP might succeed.
	ETIMEDOUT Errno = 10060
	// ECONNREFUSED: the peer's program refused, or its backlog is full.
	ECONNREFUSED Errno = 10061
	// EHOSTUNREACH: no such host.
	EHOSTUNREACH Errno = 10065
)

// meaning is the text of a code, and the errors that errors.Is matches it with.
type meaning struct {
	text string
	is   []error
}

var meanings = map[Errno]meaning{
	OperationAborted: {"operation aborted", []error{net.ErrClosed}},
	IOIncomplete:     {"not complete yet", nil},
	EACCES:           {"access denied", []error{syscall.EACCES, os.ErrPermission}},
	EFAULT:           {"memory that is not registered, or too little of it", []error{syscall.EFAULT}},
	EINVAL:           {"invalid argument", []error{syscall.EINVAL}},
	ENOTSOCK:         {"socket is closed", []error{syscall.ENOTSOCK, net.ErrClosed}},
	EMSGSIZE:         {"message too long", []error{syscall.EMSGSIZE}},
	EOPNOTSUPP:       {"operation not supported", []error{syscall.EOPNOTSUPP, errors.ErrUnsupported}},
	EADDRINUSE:       {"address already in use", []error{syscall.EADDRINUSE}},
	EADDRNOTAVAIL:    {"address not available", []error{syscall.EADDRNOTAVAIL}},
	ENETDOWN:         {"network is down", []error{syscall.ENETDOWN}},
	ENETUNREACH:      {"network is unreachable", []error{syscall.ENETUNREACH}},
	ECONNABORTED:     {"connection aborted", []error{syscall.ECONNABORTED, net.ErrClosed}},
	ECONNRESET:       {"connection reset by peer", []error{syscall.ECONNRESET, net.ErrClosed}},
	ENOBUFS:          {"no buffer space available", []error{syscall.ENOBUFS}},
	EISCONN:          {"already connected", []error{syscall.EISCONN}},
	ENOTCONN:         {"not connected", []error{syscall.ENOTCONN, net.ErrClosed}},
	ETIMEDOUT:        {"connection timed out", []error{syscall.ETIMEDOUT, os.ErrDeadlineExceeded}},
	ECONNREFUSED:     {"connection refused", []error{syscall.ECONNREFUSED}},
	EHOSTUNREACH:     {"no route to host", []error{syscall.EHOSTUNREACH}},
}

// Error returns the text of the code.
func (e Errno) Error() string {
	if m, ok := meanings[e]; ok {
		return m.text
	}
	return "winsock error " + strconv.Itoa(int(e))
}

// Is reports whether target has the same meaning. It is for errors.Is.
func (e Errno) Is(target error) bool {
	for _, m := range meanings[e].is {
		if m == target {
			return true
		}
	}
	return false
}

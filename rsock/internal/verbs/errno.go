package verbs

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Errno is the code of a failure, in the numbering of Windows Sockets. It is an
// error, and errors.Is finds in it the Go error and the errno of the system that
// mean the same.
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
	// EFAULT: memory that no registration covers, or room that is too small.
	EFAULT Errno = 10014
	// EINVAL: an argument is wrong, or the object is still in use.
	EINVAL Errno = 10022
	// ENOTSOCK: the socket is closed.
	ENOTSOCK Errno = 10038
	// EMSGSIZE: a message is larger than the provider carries.
	EMSGSIZE Errno = 10040
	// EOPNOTSUPP: the provider lacks the function.
	EOPNOTSUPP Errno = 10045
	// EADDRINUSE: somebody has the address.
	EADDRINUSE Errno = 10048
	// EADDRNOTAVAIL: the provider does not have the address.
	EADDRNOTAVAIL Errno = 10049
	// ENETDOWN: the provider or its device failed.
	ENETDOWN Errno = 10050
	// ENETUNREACH: there is no way to the network.
	ENETUNREACH Errno = 10051
	// ECONNABORTED: the peer gave a connection up before it was made.
	ECONNABORTED Errno = 10053
	// ECONNRESET: the connection is gone.
	ECONNRESET Errno = 10054
	// ENOBUFS: memory, or a place in a queue, could not be had.
	ENOBUFS Errno = 10055
	// EISCONN: the socket is connected, or was.
	EISCONN Errno = 10056
	// ENOTCONN: the socket is not connected.
	ENOTCONN Errno = 10057
	// ETIMEDOUT: no connection came about; that of TCP might.
	ETIMEDOUT Errno = 10060
	// ECONNREFUSED: the peer's program, or its full backlog, said no.
	ECONNREFUSED Errno = 10061
	// EHOSTUNREACH: there is no such host.
	EHOSTUNREACH Errno = 10065
)

// meaning is the text of a code and what it is for errors.Is.
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

// Error describes the code in a few words.
func (e Errno) Error() string {
	if m, ok := meanings[e]; ok {
		return m.text
	}
	return "winsock error " + strconv.Itoa(int(e))
}

// Is makes errors.Is(e, target) true for the errors that mean the same.
func (e Errno) Is(target error) bool {
	for _, m := range meanings[e].is {
		if m == target {
			return true
		}
	}
	return false
}

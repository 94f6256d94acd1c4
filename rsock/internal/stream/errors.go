package stream

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// The errors of streams. Except ErrNoBuffers and the errors of deadlines, they end the
// connection or report its end.
var (
	// ErrProtocol: the peer violated the protocol.
	ErrProtocol = errors.New("the peer breaks the session protocol")
	// ErrSuspend: the peer asked to move its end to another process.
	ErrSuspend = errors.New("the peer asks to suspend the connection, which is not supported")
	// ErrNoBuffers: memory could not be allocated or registered. The stream can still be
	// used. It is syscall.ENOBUFS. [WSD §5.4]
	ErrNoBuffers error = &meaning{"no buffer space", []error{syscall.ENOBUFS}}
	// ErrReset: the peer has reset the connection, or is gone. It is syscall.ECONNRESET
	// and net.ErrClosed.
	ErrReset error = &meaning{"connection reset by peer", []error{syscall.ECONNRESET, net.ErrClosed}}
	// ErrPeerClosed: the peer has closed the connection and reads no more. It is
	// syscall.EPIPE and net.ErrClosed.
	ErrPeerClosed error = &meaning{"the peer has closed the connection", []error{syscall.EPIPE, net.ErrClosed}}
	// ErrWriteClosed: this side has ended its stream. It is syscall.EPIPE.
	ErrWriteClosed error = &meaning{"write after CloseWrite", []error{syscall.EPIPE}}
	// errStuck: a transfer did not end in time.
	errStuck error = &meaning{"the peer does not let go of memory", []error{ErrReset}}
	// errLinger: the peer did not take the data that was written before Close.
	errLinger error = &meaning{"closed before all was delivered", []error{net.ErrClosed}}
	// ErrNegotiation: the peer did not answer, or answered by another protocol.
	ErrNegotiation = errors.New("session negotiation failed")
)

// meaning is an error that wraps other errors without their text.
type meaning struct {
	text string
	is   []error
}

func (e *meaning) Error() string   { return e.text }
func (e *meaning) Unwrap() []error { return e.is }

// violation returns ErrProtocol with a description.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

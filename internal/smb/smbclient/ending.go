package smbclient

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// ending is the end of a connection and its cause. It is safe for concurrent use.
type ending struct {
	down chan struct{} // closed when the connection has ended

	mu  sync.Mutex
	err error
}

// set ends the connection for a cause. It reports false if the connection has ended before.
func (e *ending) set(cause error) bool {
	if errors.Is(cause, io.EOF) {
		cause = errServerLeft // io.EOF means the end of a file to callers
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return false
	}
	e.err = &lostError{cause}
	close(e.down)
	return true
}

// cause returns the error of operations after the end, nil before it.
func (e *ending) cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// over reports whether the connection has ended.
func (e *ending) over() bool {
	select {
	case <-e.down:
		return true
	default:
		return false
	}
}

// lostError is the end of a connection by its cause. It is net.ErrClosed.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	if errors.Is(e.cause, net.ErrClosed) {
		return e.cause.Error()
	}
	return "connection lost: " + e.cause.Error()
}

func (e *lostError) Unwrap() []error { return []error{net.ErrClosed, e.cause} }

// unsentError is the end of a connection as the error of a request that was not sent.
type unsentError struct{ lost *lostError }

func (e *unsentError) Error() string { return e.lost.Error() }

func (e *unsentError) Unwrap() error { return e.lost }

// unsent marks the end of the connection as the error of a request that was not sent. Other errors
// stay as they are.
func unsent(err error) error {
	if lost, ok := err.(*lostError); ok { //nolint:errorlint // a wrapped one is marked already
		return &unsentError{lost}
	}
	return err
}

// Unsent reports whether err is the end of the connection before the request was sent, or of a
// connection whose server has announced that it begins no further request: the server has not executed
// it, and will not.
func Unsent(err error) bool {
	var e *unsentError
	return errors.As(err, &e) || errors.Is(err, errDrained)
}

// LeftByServer reports whether err is the end of the connection by the server, without a reason of this side.
func LeftByServer(err error) bool {
	for _, cause := range []error{errServerLeft, errDrained, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// errServerLeft reports that the server has closed the connection.
var errServerLeft = errors.New("the server closed it")

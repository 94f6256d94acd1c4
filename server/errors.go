package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"lwio/rdma"
)

// Why the server ends a connection.
var (
	errAuthTimeout  = errors.New("no AUTH in time")
	errDisplaced    = errors.New("no AUTH yet, and others wait for the place")
	errAuthFailed   = errors.New("AUTH failed")
	errCreditStall  = errors.New("the client does not answer a change of its credits")
	errStalled      = errors.New("the client does not take what is sent to it")
	errRevokeStall  = errors.New("I/O in flight holds up the close of a file")
	errSessionEnded = errors.New("the SMB session has ended")
	errFenced       = errors.New("the client replaced the connection")
	errClientLeft   = errors.New("the client closed the connection")
	errViolation    = errors.New("protocol violation")
	errInternal     = errors.New("internal error")
	errShutdown     = fmt.Errorf("the server shuts down: %w", net.ErrClosed)
)

// violation describes what the client did that the protocol forbids.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errViolation, fmt.Errorf(format, args...))
}

// isOrderly reports whether a connection ended as it should, with everything
// delivered that was posted.
func isOrderly(err error) bool {
	return errors.Is(err, errShutdown) || errors.Is(err, errAuthFailed)
}

// isViolation reports whether it was the server that had enough.
func isViolation(err error) bool {
	for _, e := range []error{
		errViolation, errAuthTimeout, errDisplaced, errStalled, errCreditStall, errRevokeStall, errFenced, errInternal,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost says why a request failed: the end of the connection, if that has come. A
// client that names memory which it did not lend has no one else to blame.
//
// Source: [OP-92g]
func (c *conn) lost(op rdma.Op, status rdma.Status) error {
	return c.ended(fmt.Errorf("%s: %w", op, status))
}

// ended says why the connection has ended; err, if it has not.
func (c *conn) ended(err error) error {
	end := c.connector.Err()
	switch {
	case end == nil:
		return err
	case errors.Is(end, net.ErrClosed) && !errors.Is(end, syscall.ECONNABORTED):
		return errClientLeft
	}
	return end
}

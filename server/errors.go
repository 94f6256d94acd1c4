package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"lwio/rdma"
)

// Causes of the end of a connection.
var (
	errAuthTimeout  = errors.New("no AUTH in time")
	errDisplaced    = errors.New("evicted before AUTH: too many unauthenticated connections")
	errAuthFailed   = errors.New("AUTH failed")
	errCreditStall  = errors.New("the client does not answer a change of its credits")
	errStalled      = errors.New("the client does not receive its answers")
	errRevokeStall  = errors.New("I/O in flight holds up the close of a file")
	errSessionEnded = errors.New("the SMB session has ended for good")
	errFenced       = errors.New("the client replaced the connection")
	errClientLeft   = errors.New("the client closed the connection")
	errLoggedOff    = errors.New("the client logged off")
	errLeftEarly    = errors.New("the client closed the connection before AUTH")
	errCutOff       = errors.New("a sealed connection ended without the last message of the client: the client failed, or the connection was cut off on its path")
	errViolation    = errors.New("protocol violation")
	errInternal     = errors.New("internal error")
	errShutdown     = fmt.Errorf("the server shuts down: %w", net.ErrClosed)
)

// violation returns the cause of the end of a connection whose client broke the protocol.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errViolation, fmt.Errorf(format, args...))
}

// isOrderly reports whether the connection ends only after its posted requests are delivered.
func isOrderly(err error) bool {
	return errors.Is(err, errShutdown) || errors.Is(err, errAuthFailed)
}

// isViolation reports whether the server ended the connection because of its client.
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

// lost returns the cause of a failed work request: the end of the connection, if it has ended. An
// RDMA write to inaccessible memory of the client ends the connection.
//
// Source: [OP-92g]
func (c *conn) lost(op rdma.Op, status rdma.Status) error {
	return c.ended(fmt.Errorf("%s: %w", op, status))
}

// ended returns the cause of the end of the connection; err, if the connection has not ended. Every
// peer on the path can close a connection. So a close is the client's only if nothing is to be proven:
// a client announces the end of a sealed connection by a message.
func (c *conn) ended(err error) error {
	end := c.connector.Err()
	switch {
	case end == nil:
		return err
	case !errors.Is(end, net.ErrClosed) || errors.Is(end, syscall.ECONNABORTED):
		return end
	case !c.auth.passed:
		return errLeftEarly
	case c.sealing.on():
		return errCutOff
	}
	return errClientLeft
}

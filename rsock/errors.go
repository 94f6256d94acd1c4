package rsock

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Errors of package rsock. They are wrapped: use errors.Is.
var (
	// ErrNoRDMA: RDMA is required, and no provider reaches this destination or serves
	// this listener.
	ErrNoRDMA = errors.New("no RDMA transport")
	// ErrOtherHost: the fabric connects processes of one host, and the destination is not an
	// address of this host.
	ErrOtherHost = errors.New("the address is not one of this host")
	// ErrNoSubnet: the destination is on no subnet of the provider's addresses.
	ErrNoSubnet = errors.New("no address of the provider is on the subnet")
	// ErrUnresponsive: the RDMA listener did not answer in time, less than
	// Config.RetryInterval ago, and was not tried again.
	ErrUnresponsive = errors.New("the RDMA listener did not answer a short while ago")
	// ErrNotRSock: the program at the address of the RDMA listener does not use rsock.
	ErrNotRSock = errors.New("the program at the RDMA address does not use rsock")
	// ErrUnproven: the owner of the TCP port did not confirm that the RDMA listener is its
	// own.
	ErrUnproven = errors.New("the owner of the TCP port does not confirm the RDMA listener")
)

// Error is a failure to connect or to listen by RDMA. Dial and Listen return it inside a
// *net.OpError, and it stands in Skipped.Reason.
type Error struct {
	// Op is the operation: "connect", "listen", "negotiate".
	Op string
	// Provider is the name of the RDMA provider, if the error is about one.
	Provider string
	// Object is the address of the RDMA listener, if the error is about one.
	Object string
	// Final says that the peer's answer is valid for TCP too, so TCP was not tried.
	//
	// Source: [WSD §3.1]
	Final bool
	// Err is the cause.
	Err error
}

// Error returns operation, provider, object and cause.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	parts = append(parts, e.Op)
	if e.Provider != "" {
		parts = append(parts, "over "+e.Provider)
	}
	if e.Object != "" {
		parts = append(parts, e.Object)
	}
	return fmt.Sprintf("%s: %v", strings.Join(parts, " "), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit was exceeded. It makes Error a net.Error.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Temporary returns false. It makes Error a net.Error.
func (e *Error) Temporary() bool { return false }

// opError returns an error in the form of package net.
func opError(op, network string, source, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: err}
}

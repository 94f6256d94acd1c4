package rsock

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Errors of the switch. They are wrapped: use errors.Is.
var (
	// ErrNoRDMA: RDMA was required, and there is none for this destination or listener.
	ErrNoRDMA = errors.New("no RDMA transport")
	// ErrNotLocal: the destination is none of this host's addresses, and the fabric stays
	// inside the host.
	ErrNotLocal = errors.New("the address is not one of this host")
	// ErrNoSubnet: the destination is on no subnet of the provider's addresses.
	ErrNoSubnet = errors.New("no address of the provider is on the subnet")
	// ErrSilent: the companion did not answer in time a while ago, and was not asked again.
	ErrSilent = errors.New("the companion did not answer a while ago")
	// ErrStranger: who answered at the companion's address is no rsock.
	ErrStranger = errors.New("the program at the companion's address is not the companion")
)

// Error is a failure of the switch. Dial and Listen return it inside a *net.OpError, and it
// stands in Skipped.Reason.
type Error struct {
	// Op is what failed: "connect", "listen", "negotiate", "accept".
	Op string
	// Provider is the RDMA provider, if it is about one.
	Provider string
	// Object is the companion's address, if it is about one.
	Object string
	// Definite says that the peer's answer holds for TCP too, so that TCP was not tried.
	//
	// Source: [WSD §3.1]
	Definite bool
	// Err is the cause.
	Err error
}

// Error says operation, provider, object and cause.
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

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether time ran out, as net.Error asks.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Temporary is always false; it is there for net.Error.
func (e *Error) Temporary() bool { return false }

// opError is the error of Dial or Listen as package net gives it.
func opError(op, network string, source, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: err}
}

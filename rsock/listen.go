package rsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
)

// ListenConfig holds the options of a listener. The zero value listens on TCP only.
type ListenConfig struct {
	// Config selects the providers and tunes the connections; nil is the zero Config.
	Config *Config
	// NetListenConfig listens on TCP; nil is the zero net.ListenConfig.
	NetListenConfig *net.ListenConfig
	// Backlog is how many RDMA connections may be between their request and AcceptConn.
	// A further request takes the place of the oldest connection that is not negotiated, of
	// the busiest host: that with the largest product of the number of such connections and
	// the age of the oldest. If all are negotiated, the request is refused, and its dialer uses
	// TCP. 0 is 1024. The system sets the backlog of TCP; up to Backlog further TCP
	// connections wait for AcceptConn.
	//
	// Source: [WSD §3.2]
	Backlog int
	// Admit decides on each connection; nil admits all. An RDMA dialer gets no answer
	// before Admit has returned. If Admit returns false, the dialer tries TCP, and Admit
	// is called for that connection too. The system has accepted a TCP connection before
	// Admit is called; if Admit returns false, the connection is reset. Several goroutines
	// call Admit at a time, and none delays another: up to 64 for TCP connections, and up
	// to Backlog for RDMA connections. For an RDMA connection Admit must return within
	// Config.HandshakeTimeout.
	//
	// Source: [WSD §3.2]
	Admit func(*Request) bool
}

// Request is a connection that Admit decides on.
type Request struct {
	// Transport is the name of the provider that the connection comes by, or TransportTCP.
	Transport string
	// LocalAddr and RemoteAddr are the addresses of the listener and of the dialer.
	LocalAddr, RemoteAddr *net.TCPAddr
}

// Listen listens on address, as net.Listen does, on network "tcp", "tcp4" or "tcp6". It also
// listens by RDMA.
func Listen(network, address string, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).Listen(context.Background(), network, address)
}

// Listen listens on address, "host:port", on network "tcp", "tcp4" or "tcp6". For port 0 it
// picks a port at which RDMA listeners can listen too. An address without a host, or with an
// unspecified host, has RDMA listeners on all addresses of the providers, also on addresses
// that are added later. An RDMA listener that cannot listen is left out, and tried again
// every Config.RefreshInterval.
//
// Errors: a *net.OpError. It wraps ErrNoRDMA if RDMA is required and no RDMA listener
// listens.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("listen", network, nil, nil, net.UnknownNetworkError(network))
	}
	nlc := lc.NetListenConfig
	if nlc == nil {
		nlc = new(net.ListenConfig)
	}
	r := newRouter(lc.Config)
	for try := 1; ; try++ {
		nl, err := nlc.Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := newListener(lc, r, nl.(*net.TCPListener), network)
		failed := l.rdma.openAll(ctx)
		if try < portTries && isAnyPort(address) && inUse(failed) {
			l.Close()
			continue
		}
		for _, err := range failed {
			r.cfg.Logger.Warn("rsock: no RDMA listener", "addr", l.Addr(), "err", err)
		}
		if r.cfg.RequireRDMA && len(l.RDMAAddrs()) == 0 {
			addr := l.Addr()
			l.Close()
			return nil, opError("listen", network, nil, addr, noListener(failed))
		}
		l.start()
		return l, nil
	}
}

// portTries is how many ports are tried for port 0.
const portTries = 16

// isAnyPort reports whether the system picks the port of an address.
func isAnyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && (port == "0" || port == "")
}

// inUse reports whether an RDMA listener failed because its address is in use.
func inUse(failed []error) bool {
	return slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) })
}

// noListener returns ErrNoRDMA with the errors of the RDMA listeners.
func noListener(failed []error) error {
	if len(failed) == 0 {
		return fmt.Errorf("%w: no provider serves the address", ErrNoRDMA)
	}
	return fmt.Errorf("%w: %w", ErrNoRDMA, joined(failed))
}

package rsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
)

// ListenConfig says how to listen. The zero value listens on TCP only.
type ListenConfig struct {
	// Config says what to listen on beside TCP; nil is the zero Config.
	Config *Config
	// Net listens on TCP.
	Net net.ListenConfig
	// Backlog is how many RDMA connections may be on their way from the request to
	// AcceptConn; more are refused at once. 0 is DefaultBacklog. Those of TCP are in the
	// hands of the system.
	//
	// Source: [WSD §3.2]
	Backlog int
	// Condition decides about each connection; nil takes all. Who comes by RDMA learns
	// nothing before it returned, and gets ECONNREFUSED if it says no; a connection by TCP,
	// which the system has taken already, is then reset. It may be called by several
	// goroutines at a time, of which none holds up another: by up to 64 for connections by
	// TCP, and by Backlog for those by RDMA, where it has Config.Negotiation to answer.
	//
	// Source: [WSD §3.2]
	Condition func(*Request) bool
}

// Request is a connection that a condition function decides about.
type Request struct {
	// Transport is what it comes by: the name of a provider, or TransportTCP.
	Transport string
	// Local is the address it is for, Remote that of who asks.
	Local, Remote *net.TCPAddr
}

// Listen listens on address, as net.Listen does, on network "tcp", "tcp4" or "tcp6", and
// beside that on companions.
func Listen(network, address string, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).Listen(context.Background(), network, address)
}

// Listen listens on address, "host:port", on network "tcp", "tcp4" or "tcp6". For port 0 it
// picks one at which companions can listen too. An address without a host, or with an
// unspecified one, gets companions on all addresses of the providers, and on new ones as
// they come. A companion that cannot listen is left out, and tried again every
// Config.Refresh.
//
// Errors: a *net.OpError. In it is ErrNoRDMA if RDMA is required and no companion listens.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("listen", network, nil, nil, net.UnknownNetworkError(network))
	}
	sw := newBoard(lc.Config)
	for try := 1; ; try++ {
		nl, err := lc.Net.Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := newListener(lc, sw, nl.(*net.TCPListener), network)
		failed := l.openAll(ctx)
		if try < portTries && anyPort(address) && inUse(failed) {
			l.Close()
			continue
		}
		for _, err := range failed {
			sw.cfg.Logger.Warn("rsock: no companion", "addr", l.Addr(), "err", err)
		}
		if sw.cfg.RequireRDMA && len(l.Companions()) == 0 {
			addr := l.Addr()
			l.Close()
			return nil, opError("listen", network, nil, addr, noCompanion(failed))
		}
		l.start()
		return l, nil
	}
}

// portTries is how many ports are tried where the port is left open.
const portTries = 16

// anyPort tells whether the port of an address is left open.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && (port == "0" || port == "")
}

// inUse tells whether a companion could not listen because somebody has its address.
func inUse(failed []error) bool {
	return slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) })
}

// noCompanion is ErrNoRDMA with what went wrong.
func noCompanion(failed []error) error {
	if len(failed) == 0 {
		return fmt.Errorf("%w: no provider serves the address", ErrNoRDMA)
	}
	return fmt.Errorf("%w: %w", ErrNoRDMA, joined(failed))
}

package rsock

import (
	"context"
	"net"
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
	// goroutines at a time, and has Config.Negotiation to answer.
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
// they come. A companion that cannot listen is left out.
//
// Errors: a *net.OpError. In it is ErrNoRDMA if RDMA is required and no companion listens.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("listen", network, nil, nil, net.UnknownNetworkError(network))
	}
	tcp, err := lc.Net.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newListener(lc, newBoard(lc.Config), tcp.(*net.TCPListener)), nil
}

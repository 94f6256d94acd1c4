package rsock

import (
	"context"
	"net"
	"sync"
)

// Dialer connects, by RDMA where it can. The zero value dials TCP. It must not be changed
// or copied after its first use. Safe for concurrent use.
//
// Source: [WSD §3.1]
type Dialer struct {
	// Config says how to choose; nil is the zero Config.
	Config *Config
	// Net dials TCP, and its Timeout, Deadline, LocalAddr and Resolver count for RDMA too.
	Net net.Dialer

	once sync.Once
	sw   *board
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to address, "host:port", on network "tcp", "tcp4" or "tcp6". The
// connection is a *Conn.
//
// Errors: a *net.OpError. In it is ECONNREFUSED if nobody listens there, the listener's
// condition function said no, or its backlog is full; ECONNRESET if the listener was just
// closing; EHOSTUNREACH; ErrNoRDMA where RDMA is required; the error of ctx.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.DialConn(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DialConn is DialContext with the connection as what it is.
func (d *Dialer) DialConn(ctx context.Context, network, address string) (*Conn, error) {
	d.once.Do(func() { d.sw = newBoard(d.Config) })
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("dial", network, nil, nil, net.UnknownNetworkError(network))
	}
	return d.dialTCP(ctx, network, address, nil)
}

// dialTCP connects by TCP.
func (d *Dialer) dialTCP(ctx context.Context, network, address string, skipped []Skipped) (*Conn, error) {
	nc, err := d.Net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newTCPConn(nc.(*net.TCPConn), skipped), nil
}

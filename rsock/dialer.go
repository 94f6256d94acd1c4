package rsock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Dialer connects by RDMA where it can, and by TCP elsewhere. The zero value dials TCP. The
// connections of a Dialer share the providers, the table of subnets and the memory for large
// data, so a program has one Dialer for each Config. A Dialer must not be changed or copied
// after its first use. Safe for concurrent use.
//
// Source: [WSD §3.1]
type Dialer struct {
	// Config selects the providers and tunes the connections; nil is the zero Config.
	Config *Config
	// NetDialer dials TCP; nil is the zero net.Dialer. Its Timeout, Deadline, LocalAddr and
	// Resolver apply to RDMA too. It also dials the TCP connection over which the owner of the
	// TCP port proves that the RDMA listener is its own.
	NetDialer *net.Dialer

	once   sync.Once
	router *router
	net    *net.Dialer
}

// init prepares the Dialer at its first use.
func (d *Dialer) init() {
	d.once.Do(func() {
		d.router = newRouter(d.Config)
		if d.net = d.NetDialer; d.net == nil {
			d.net = new(net.Dialer)
		}
		d.router.net = d.net
	})
}

// Dial is DialContext with context.Background.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to address, "host:port", on network "tcp", "tcp4" or "tcp6". The
// connection is a *Conn. If a name has several addresses, RDMA is tried with each address in
// the order of the resolver, and then TCP with the addresses that did not refuse.
//
// Errors: a *net.OpError. It wraps ECONNREFUSED if no program listens at the address;
// EHOSTUNREACH; ErrNoRDMA if RDMA is required; the error of ctx.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.DialConn(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DialConn is DialContext with a *Conn as the result.
func (d *Dialer) DialConn(ctx context.Context, network, address string) (*Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("dial", network, nil, nil, net.UnknownNetworkError(network))
	}
	d.init()
	ctx, cancel := d.withLimits(ctx)
	defer cancel()
	at := attempt{d: d, network: network, address: address}
	if len(d.router.cfg.Providers) > 0 {
		if c, err := at.rdma(ctx); c != nil || err != nil {
			return c, err
		}
	}
	if d.router.cfg.RequireRDMA {
		return nil, opError("dial", network, nil, at.addr(), at.noRDMA())
	}
	return at.tcp(ctx)
}

// Drain waits until no closed connection of the Dialer is still delivering written data. Open
// connections do not count.
//
// Errors: the error of ctx; the deliveries go on.
func (d *Dialer) Drain(ctx context.Context) error {
	d.init()
	if err := d.router.draining.wait(ctx); err != nil {
		return opError("close", "tcp", nil, nil, err)
	}
	return nil
}

// withLimits returns ctx with the limits of NetDialer.
func (d *Dialer) withLimits(ctx context.Context) (context.Context, context.CancelFunc) {
	end := d.net.Deadline
	if d.net.Timeout > 0 {
		if t := time.Now().Add(d.net.Timeout); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end)
}

// from returns the address to connect from. With the zero address, or with a port alone, the
// system chooses.
func (d *Dialer) from() netip.AddrPort {
	a, ok := d.net.LocalAddr.(*net.TCPAddr)
	if !ok || a == nil {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	if ap.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.Addr{}, ap.Port())
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// attempt is one dial.
type attempt struct {
	d                *Dialer
	network, address string
	resolved         bool
	dests            []netip.AddrPort // destinations that are left for TCP
	skipped          []Skipped
}

// addr returns the destination for an error, or nil.
func (at *attempt) addr() net.Addr {
	if len(at.dests) == 0 {
		return nil
	}
	return net.TCPAddrFromAddrPort(at.dests[0])
}

// rdma connects by RDMA. It returns neither a connection nor an error if TCP is next.
func (at *attempt) rdma(ctx context.Context) (*Conn, error) {
	dests, err := at.d.resolve(ctx, at.network, at.address)
	if err != nil {
		return nil, opError("dial", at.network, nil, nil, err)
	}
	var refused error
	for _, to := range dests {
		c, err := at.d.router.dial(ctx, to, at.d.from(), &at.skipped)
		switch {
		case c != nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, opError("dial", at.network, nil, net.TCPAddrFromAddrPort(to), context.Cause(ctx))
		case err == nil:
			at.dests = append(at.dests, to)
		case refused == nil:
			refused = opError("dial", at.network, nil, net.TCPAddrFromAddrPort(to), err)
		}
	}
	at.resolved = len(at.dests) < len(dests)
	if len(at.dests) == 0 {
		return nil, refused
	}
	return nil, nil
}

// tcp connects by TCP to the address of the caller. After a refusal over RDMA it connects to
// the remaining addresses of the destination.
func (at *attempt) tcp(ctx context.Context) (*Conn, error) {
	addresses := []string{at.address}
	if at.resolved {
		addresses = nil
		for _, to := range at.dests {
			addresses = append(addresses, to.String())
		}
	}
	var first error
	for _, a := range addresses {
		nc, err := at.d.net.DialContext(ctx, at.network, a)
		if err == nil {
			return newTCPConn(nc.(*net.TCPConn), at.skipped), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// noRDMA returns ErrNoRDMA with the reason against each provider.
func (at *attempt) noRDMA() error {
	if len(at.skipped) == 0 {
		return fmt.Errorf("%w: no provider is configured", ErrNoRDMA)
	}
	reasons := make([]error, len(at.skipped))
	for i, s := range at.skipped {
		reasons[i] = fmt.Errorf("%s: %w", s.Provider, s.Reason)
	}
	return &Error{Op: "connect", Err: fmt.Errorf("%w: %w", ErrNoRDMA, joined(reasons))}
}

// resolve returns the addresses of a destination, as package net resolves them.
func (d *Dialer) resolve(ctx context.Context, network, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r := d.net.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	port, err := r.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	family := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	if host == "" {
		host = map[string]string{"tcp": "0.0.0.0", "tcp4": "0.0.0.0", "tcp6": "::"}[network]
	}
	ips, err := r.LookupNetIP(ctx, family, host)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, ip := range ips {
		list = append(list, netip.AddrPortFrom(reachable(ip.Unmap()), uint16(port)))
	}
	return list, nil
}

// reachable returns an address to connect to. It turns the unspecified address into an
// address of this host.
func reachable(ip netip.Addr) netip.Addr {
	switch {
	case ip == netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case ip == netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	}
	return ip
}

// joined returns several causes as one error with a text of one line.
func joined(errs []error) error {
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

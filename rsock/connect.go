package rsock

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// dial connects to a destination by the first provider that can. It returns neither a
// connection nor an error if TCP is to be tried next. After an error TCP is not tried. dial
// adds the reasons against providers to skipped.
//
// Source: [WSD §3.1]
func (r *router) dial(ctx context.Context, to, from netip.AddrPort, skipped *[]Skipped) (*Conn, error) {
	table, err := r.subnets.current(ctx)
	if err != nil {
		for _, p := range r.cfg.Providers {
			*skipped = append(*skipped, Skipped{Provider: p.Name(), Reason: err})
		}
		return nil, nil
	}
	for _, rt := range table.routes(to.Addr(), from.Addr()) {
		name := rt.fabric.provider.Name()
		err := rt.err
		if err == nil {
			var c *Conn
			if c, err = r.dialRoute(ctx, rt, to, from, *skipped); err == nil {
				return c, nil
			}
			r.cfg.Logger.Info("rsock: provider skipped", "provider", name, "to", to, "err", err)
		}
		if e := (*Error)(nil); errors.As(err, &e) && e.Final {
			return nil, err
		}
		*skipped = append(*skipped, Skipped{Provider: name, Reason: err})
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil
}

// dialRoute connects by one provider. It takes at most Config.HandshakeTimeout, and at most
// half of the remaining time of ctx.
func (r *router) dialRoute(ctx context.Context, rt route, to, from netip.AddrPort, skipped []Skipped) (*Conn, error) {
	limit := r.cfg.HandshakeTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	end := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	name := rt.fabric.provider.Name()
	svc, err := r.services.open(ctx, &rt.fabric, rt.local)
	if err != nil {
		r.subnets.invalidate()
		return nil, &Error{Op: "connect", Provider: name, Err: err}
	}
	if rt.local == to.Addr() && !svc.Info().Caps.Has(rdma.CapLoopback) {
		svc.release()
		return nil, &Error{Op: "connect", Provider: name, Err: errNoLoopback}
	}
	for _, e := range dialEndpoints(&r.cfg, rt.fabric, to, rt.local) {
		if !r.cfg.RequireRDMA && r.unresponsive.has(e.at) {
			err = &Error{Op: "connect", Provider: name, Object: e.String(), Err: ErrUnresponsive}
			break
		}
		var c *Conn
		if c, err = r.dialEndpoint(ctx, svc, e, to, from, skipped); err == nil {
			return c, nil
		}
		late := limit == r.cfg.HandshakeTimeout && !time.Now().Before(end) // ctx may end a moment later
		if late || ctx.Err() == nil && errors.Is(err, ErrUnproven) {
			r.unresponsive.add(e.at, r.cfg.RetryInterval)
		}
		if !errors.Is(err, errNoListener) {
			break
		}
	}
	svc.release()
	return nil, err
}

// Reasons against a provider.
var (
	errNoLoopback = errors.New("the provider does not connect a host to itself")
	errNoListener = errors.New("no RDMA listener at the address")
)

// portTriesOfProof is how many ports are tried for the TCP connection of a proof.
const portTriesOfProof = 8

// dialEndpoint connects to one RDMA listener. On success the connection owns the service.
func (r *router) dialEndpoint(ctx context.Context, svc *service, e endpoint, to, from netip.AddrPort, skipped []Skipped) (c *Conn, err error) {
	own := sourceOf(&e, to, from)
	for range portTriesOfProof {
		if c, err = r.tryEndpoint(ctx, svc, e, to, own, skipped); !errors.Is(err, errPortInUse) {
			break
		}
	}
	return c, err
}

// tryEndpoint is one attempt of dialEndpoint. The program at the RDMA address gets nothing
// but a hello before its listener is proven.
func (r *router) tryEndpoint(ctx context.Context, svc *service, e endpoint, to, own netip.AddrPort, skipped []Skipped) (*Conn, error) {
	failed := func(op string, final bool, err error) error {
		return &Error{Op: op, Provider: svc.Name(), Object: e.String(), Final: final, Err: err}
	}
	sock, err := svc.Socket(ctx)
	if err != nil {
		return nil, failed("connect", false, err)
	}
	if own.Port() != 0 && !e.fabric.inHost() {
		if err := sock.Bind(rdma.IPAddr(svc.Name(), netip.AddrPortFrom(e.local, own.Port()))); err != nil {
			sock.Close()
			return nil, failed("connect", false, err)
		}
	}
	s, err := r.newStream(ctx, sock)
	if err != nil {
		return nil, failed("connect", false, err)
	}
	call := hello{kind: helloRequest, from: withoutZone(own), to: withoutZone(to), nonce: newNonce()}
	op := "prove"
	request := func(port uint16) error {
		call.proofPort = port
		reply, err := sock.Connect(ctx, e.at, call.appendTo(nil))
		if err = connectOutcome(&e, to, reply, err); err != nil {
			op = "connect"
		}
		return err
	}
	source := call.from.Addr().WithZone(to.Addr().Zone())
	c, err := connectForProof(ctx, *r.net, source, to, r.ports, request)
	if err == nil {
		err = askProof(ctx, c, call.nonce, e.at)
	}
	if err != nil {
		s.Abort()
		return nil, failed(op, isFinal(err), err)
	}
	if err := s.Start(ctx, true); err != nil {
		s.Abort()
		return nil, failed("negotiate", false, err)
	}
	if a, err := sock.LocalAddr(); err == nil && !e.fabric.inHost() {
		own = netip.AddrPortFrom(own.Addr(), a.AddrPort.Port())
	}
	return r.newRDMAConn(s, Transport{Name: svc.Name(), Skipped: skipped}, own, to, svc), nil
}

// connectOutcome turns the result of a connect and the private data of the peer into an
// error. The error is nil if a listener of rsock accepted.
//
// Source: [WSD §3.1]
func connectOutcome(e *endpoint, to netip.AddrPort, reply []byte, err error) error {
	if err == nil {
		if _, err := decodeHello(reply, helloAccept); err != nil {
			return ErrNotRSock
		}
		return nil
	}
	if h, err := decodeHello(reply, helloReject); err == nil {
		return h.reason.errno() // not final: the rejection is not proven
	}
	switch verbs.ErrnoOf(err) {
	case verbs.EHOSTUNREACH:
		if e.at.AddrPort.Addr() == to.Addr() {
			return finalError{err}
		}
	case verbs.ECONNREFUSED:
		return fmt.Errorf("%w: %w", ErrNotRSock, err)
	}
	if errors.Is(err, rdma.StatusConnectionRefused) {
		return errNoListener
	}
	return err
}

// finalError is an error that holds for TCP too. It never comes from the program at the RDMA
// address.
type finalError struct{ error }

// Unwrap returns the error.
func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool { return errors.As(err, new(finalError)) }

// errno returns the reason of a rejection as an error.
func (r rejection) errno() error {
	switch r {
	case rejectedClosing:
		return syscall.ECONNRESET
	case rejectedPort:
		return errPortInUse
	}
	return syscall.ECONNREFUSED
}

// sourceOf returns the TCP address that a connection comes from. The port is 0 if the fabric
// chooses it.
func sourceOf(e *endpoint, to, from netip.AddrPort) netip.AddrPort {
	switch {
	case !e.fabric.inHost():
		return netip.AddrPortFrom(e.local, from.Port())
	case !from.Addr().IsValid():
		from = netip.AddrPortFrom(to.Addr(), from.Port())
	}
	if from.Port() == 0 {
		from = netip.AddrPortFrom(from.Addr(), dynamicPort())
	}
	return from
}

// firstDynamicPort is the first number for the port of a dialer over a fabric without ports.
// It is the first dynamic port of IANA.
const firstDynamicPort = 49152

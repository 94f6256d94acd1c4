package rsock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// dial connects to a destination by the first provider that can. Without a connection and
// an error TCP is next; with an error it is not. Why providers were not used is added to
// skipped.
//
// Source: [WSD §3.1]
func (b *board) dial(ctx context.Context, to, from netip.AddrPort, skipped *[]Skipped) (*Conn, error) {
	table, err := b.subnets(ctx)
	if err != nil {
		for _, p := range b.cfg.Providers {
			*skipped = append(*skipped, Skipped{Provider: p.Name(), Reason: err})
		}
		return nil, nil
	}
	for _, w := range table.ways(to.Addr(), from.Addr()) {
		name := w.path.provider.Name()
		err := w.err
		if err == nil {
			var c *Conn
			if c, err = b.connectBy(ctx, w, to, from, *skipped); err == nil {
				return c, nil
			}
			b.cfg.Logger.Info("rsock: not by RDMA", "provider", name, "to", to, "err", err)
		}
		if e := (*Error)(nil); errors.As(err, &e) && e.Definite {
			return nil, err
		}
		*skipped = append(*skipped, Skipped{Provider: name, Reason: err})
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil
}

// connectBy connects by one provider, in the time that it gets.
func (b *board) connectBy(ctx context.Context, w way, to, from netip.AddrPort, skipped []Skipped) (*Conn, error) {
	limit := b.cfg.Negotiation
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name := w.path.provider.Name()
	ln, err := b.lane(ctx, &w.path, w.local)
	if err != nil {
		b.outdate()
		return nil, &Error{Op: "connect", Provider: name, Err: err}
	}
	if w.local == to.Addr() && !ln.Info().Caps.Has(rdma.CapLoopback) {
		ln.release()
		return nil, &Error{Op: "connect", Provider: name, Err: errNoLoopback}
	}
	for _, p := range targets(&b.cfg, w.path, to, w.local) {
		if !b.cfg.RequireRDMA && b.isQuiet(p.at) {
			err = &Error{Op: "connect", Provider: name, Object: p.String(), Err: ErrSilent}
			break
		}
		var c *Conn
		if c, err = b.connectTo(ctx, ln, p, to, from, skipped); err == nil {
			return c, nil
		}
		if limit == b.cfg.Negotiation && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			b.hush(p.at)
		}
		if !errors.Is(err, errNobody) {
			break
		}
	}
	ln.release()
	return nil, err
}

// Reasons why a provider is not used.
var (
	errNoLoopback = errors.New("the provider does not connect a host to itself")
	errNobody     = errors.New("nobody listens at the companion's address")
)

// connectTo connects to one address of a companion. On success the lane is the
// connection's.
func (b *board) connectTo(ctx context.Context, ln *lane, p place, to, from netip.AddrPort, skipped []Skipped) (*Conn, error) {
	own := sourceOf(&p, to, from)
	failed := func(op string, definite bool, err error) error {
		return &Error{Op: op, Provider: ln.Name(), Object: p.String(), Definite: definite, Err: err}
	}
	sock, err := ln.Socket(ctx)
	if err != nil {
		return nil, failed("connect", false, err)
	}
	if own.Port() != 0 && !p.path.inside() {
		if err := sock.Bind(rdma.IPAddr(ln.Name(), netip.AddrPortFrom(p.local, own.Port()))); err != nil {
			sock.Close()
			return nil, failed("connect", false, err)
		}
	}
	s, err := b.newSession(ctx, sock)
	if err != nil {
		return nil, failed("connect", false, err)
	}
	call := hello{kind: helloRequest, from: withoutZone(own), to: withoutZone(to)}
	reply, err := sock.Connect(ctx, p.at, call.appendTo(nil))
	if err = answered(&p, to, reply, err); err != nil {
		s.Abort()
		return nil, failed("connect", isDefinite(err), err)
	}
	if err := s.Start(ctx, true); err != nil {
		s.Abort()
		return nil, failed("negotiate", false, err)
	}
	if a, err := sock.LocalAddr(); err == nil && !p.path.inside() {
		own = netip.AddrPortFrom(own.Addr(), a.AddrPort.Port())
	}
	return newRDMAConn(s, Transport{Name: ln.Name(), Skipped: skipped}, own, to, ln), nil
}

// answered tells from the outcome of a connect, and what the peer said, how it went.
//
// Source: [WSD §3.1]
func answered(p *place, to netip.AddrPort, reply []byte, err error) error {
	if err == nil {
		if _, err := decodeHello(reply, helloAccept); err != nil {
			return ErrStranger
		}
		return nil
	}
	if h, e := decodeHello(reply, helloReject); e == nil {
		return definite{h.reason.errno()}
	}
	switch verbs.ErrnoOf(err) {
	case verbs.EHOSTUNREACH:
		if p.at.AddrPort.Addr() == to.Addr() {
			return definite{err}
		}
	case verbs.ECONNREFUSED:
		return fmt.Errorf("%w: %w", ErrStranger, err)
	}
	if errors.Is(err, rdma.StatusConnectionRefused) {
		return errNobody
	}
	return err
}

// definite is an error that holds for TCP too.
type definite struct{ error }

// Unwrap gives the error.
func (d definite) Unwrap() error { return d.error }

func isDefinite(err error) bool { return errors.As(err, new(definite)) }

// errno is what the dialer of a connection that was rejected gets.
func (r rejection) errno() error {
	if r == rejectedClosing {
		return syscall.ECONNRESET
	}
	return syscall.ECONNREFUSED
}

// sourceOf is the address of TCP that a connection comes from. Its port is 0 where the
// fabric picks one.
func sourceOf(p *place, to, from netip.AddrPort) netip.AddrPort {
	switch {
	case !p.path.inside():
		return netip.AddrPortFrom(p.local, from.Port())
	case !from.Addr().IsValid():
		from = netip.AddrPortFrom(to.Addr(), from.Port())
	}
	if from.Port() == 0 {
		from = netip.AddrPortFrom(from.Addr(), firstNumber+rand.N[uint16](65535-firstNumber))
	}
	return from
}

// firstNumber is the first of the numbers that stand for a port of who dials where a fabric
// has none: they are those that IANA keeps for that.
const firstNumber = 49152

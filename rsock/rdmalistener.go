package rsock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"lwio/internal/evict"
	"lwio/rsock/internal/verbs"
)

// acceptPause is how long an RDMA listener waits after the provider failed to accept, for
// example without memory. The pause doubles up to maxAcceptPause while the failures go on.
const (
	acceptPause    = 50 * time.Millisecond
	maxAcceptPause = 5 * time.Second
)

// rdmaListener is one RDMA listener of a Listener.
//
// Source: [WSD §3.2]
type rdmaListener struct {
	l        *Listener
	at       endpoint
	service  *service
	listener *verbs.Listener
	gone     bool // its address is gone; guarded by rdmaListeners.mu
}

// run takes requests until the listener is closed. Each request has a goroutine of its own,
// because a peer may delay it.
func (r *rdmaListener) run() {
	defer r.service.release()
	pause := acceptPause
	for {
		in, err := r.next()
		switch {
		case err == nil:
			pause = acceptPause
			svc := r.service.share() // run may end before handle does
			r.l.wg.Go(func() {
				defer func() { svc.release(); <-r.l.handling }()
				r.handle(in)
			})
		case r.l.ctx.Err() != nil || r.isGone():
			return
		default:
			r.l.router.cfg.Logger.Warn("rsock: accept failed", "provider", r.service.Name(), "addr", &r.at, "err", err)
			select {
			case <-time.After(pause):
			case <-r.l.closing:
			}
			pause = min(2*pause, maxAcceptPause)
		}
	}
}

// next waits until fewer requests are handled than allowed, and then for a request.
func (r *rdmaListener) next() (*verbs.Incoming, error) {
	select {
	case r.l.handling <- struct{}{}:
	case <-r.l.closing:
		return nil, net.ErrClosed
	}
	in, err := r.listener.Accept(r.l.ctx)
	if err != nil {
		<-r.l.handling
	}
	return in, err
}

func (r *rdmaListener) isGone() bool {
	r.l.rdma.mu.Lock()
	defer r.l.rdma.mu.Unlock()
	return r.gone
}

// handle rejects a request, or makes a connection of it for AcceptConn.
func (r *rdmaListener) handle(in *verbs.Incoming) {
	noise, log := &r.l.router.noise, r.l.router.cfg.Logger.With("provider", r.service.Name(), "addr", &r.at)
	call, err := r.readRequest(in)
	if err != nil {
		noise.Log(log, slog.LevelInfo, "rsock: request without valid private data rejected", "err", err, "reject", in.Reject(nil))
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.l.ctx, r.l.router.cfg.HandshakeTimeout, os.ErrDeadlineExceeded)
	defer cancel()
	ctx, evict := context.WithCancelCause(ctx)
	defer evict(nil)
	place := r.l.backlog.enter(r.hostOf(&call), evict)
	proof := r.l.proofs.announce(ctx, &call, r.at.at)
	defer r.l.proofs.forget(&call, proof)
	if reason := r.admit(ctx, place, proof, &call); reason != notRejected {
		r.l.backlog.leave(place)
		no := hello{kind: helloReject, reason: reason, from: call.to, to: call.from}
		noise.Log(log, slog.LevelInfo, "rsock: connection rejected", "peer", call.from, "reason", reason.errno(), "reject", in.Reject(no.appendTo(nil)))
		return
	}
	conn, err := r.accept(ctx, in, proof, &call)
	if err == nil && !r.l.backlog.finish(place) {
		_ = conn.SetLinger(0)
		conn.Close()
		err = errEvicted
	}
	if err != nil {
		r.l.backlog.leave(place)
		noise.Log(log, slog.LevelInfo, "rsock: handshake failed", "peer", call.from, "err", err)
		return
	}
	r.l.ready <- conn // does not block, as the connection has a place
}

// hostOf returns the host of a dialer for the backlog. Peers inside the host are one host,
// because each can name any address.
func (r *rdmaListener) hostOf(call *hello) netip.Prefix {
	if r.at.fabric.inHost() {
		return netip.Prefix{}
	}
	return evict.HostOf(call.from.Addr())
}

// readRequest decodes the hello of a request. It checks that the hello names this listener,
// and the address of the peer that the fabric reports.
func (r *rdmaListener) readRequest(in *verbs.Incoming) (hello, error) {
	call, err := decodeHello(in.PrivateData(), helloRequest)
	if err != nil {
		return call, err
	}
	own := r.l.addr
	if call.to.Port() != own.Port() || !own.Addr().IsUnspecified() && call.to.Addr() != own.Addr().WithZone("") {
		return call, errHello
	}
	peer, err := in.PeerAddr()
	if err != nil {
		return call, err
	}
	if r.at.fabric.inHost() {
		table, err := r.l.router.subnets.current(r.l.ctx)
		if err != nil {
			return call, err
		}
		if !table.isHost(call.from.Addr()) || !table.isHost(call.to.Addr()) {
			return call, errHello
		}
		return call, nil
	}
	if peer.AddrPort.Addr().Unmap().WithZone("") != call.from.Addr() {
		return call, errHello
	}
	call.from = peer.AddrPort
	return call, nil
}

// admit calls Admit for a request with a place and an announcement.
func (r *rdmaListener) admit(ctx context.Context, place *place, proof *announced, call *hello) rejection {
	switch {
	case r.l.ctx.Err() != nil:
		return rejectedClosing
	case place == nil:
		return rejectedBacklog
	case proof == nil:
		return rejectedPort
	}
	wanted := r.l.admit == nil || r.l.admit(&Request{
		Transport:  r.service.Name(),
		LocalAddr:  net.TCPAddrFromAddrPort(call.to),
		RemoteAddr: net.TCPAddrFromAddrPort(call.from),
	})
	switch {
	case r.l.ctx.Err() != nil:
		return rejectedClosing
	case !wanted:
		return rejectedRefused
	case ctx.Err() != nil:
		return rejectedBacklog
	}
	return notRejected
}

// accept makes the connection, and negotiates after the dialer has got its proof.
func (r *rdmaListener) accept(ctx context.Context, in *verbs.Incoming, proof *announced, call *hello) (*Conn, error) {
	router := r.l.router
	s, err := router.newStream(ctx, in.Socket())
	if err != nil {
		return nil, err
	}
	yes := hello{kind: helloAccept, from: call.to, to: call.from}
	if _, err := in.Accept(ctx, yes.appendTo(nil)); err != nil {
		s.Abort()
		return nil, err
	}
	if err := s.Start(ctx, false); err != nil {
		s.Abort()
		return nil, err
	}
	select {
	case <-proof.given:
	default:
		s.Abort()
		return nil, errNotAsked
	}
	return router.newRDMAConn(s, Transport{Name: r.service.Name()}, call.to, call.from, r.service.share()), nil
}

// errNotAsked: a dialer negotiated before it had the proof.
var errNotAsked = errors.New("the dialer did not ask for the proof")

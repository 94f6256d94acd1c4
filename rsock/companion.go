package rsock

import (
	"context"
	"net"
	"time"

	"lwio/rsock/internal/verbs"
)

// acceptPause is how long a companion waits after the provider refused to give it a
// connection, for want of memory for instance; it doubles up to maxAcceptPause while that
// goes on.
const (
	acceptPause    = 50 * time.Millisecond
	maxAcceptPause = 5 * time.Second
)

// companion is an RDMA listener beside one of TCP.
//
// Source: [WSD §3.2]
type companion struct {
	l        *Listener
	place    place
	lane     *lane
	listener *verbs.Listener
	over     bool // its address is gone; guarded by Listener.mu
}

// openCompanion listens at a place and begins to take connections, unless the listener is
// closed meanwhile.
func (l *Listener) openCompanion(ctx context.Context, p place) error {
	name := p.path.provider.Name()
	ln, err := l.sw.lane(ctx, &p.path, p.local)
	if err != nil {
		return &Error{Op: "listen", Provider: name, Object: p.String(), Err: err}
	}
	sl, err := ln.Listen(ctx, p.at, l.backlog)
	if err != nil {
		ln.release()
		return &Error{Op: "listen", Provider: name, Object: p.String(), Err: err}
	}
	c := &companion{l: l, place: p, lane: ln, listener: sl}
	l.mu.Lock()
	closed := l.ctx.Err() != nil
	if !closed {
		l.companions = append(l.companions, c)
		l.wg.Go(c.run)
	}
	l.mu.Unlock()
	if closed {
		err = sl.Close()
		ln.release()
	}
	return err
}

// run takes requests until the companion is closed. Each is dealt with by a goroutine of
// its own, as a peer may take its time.
func (c *companion) run() {
	defer c.lane.release()
	pause := acceptPause
	for {
		in, err := c.next()
		switch {
		case err == nil:
			pause = acceptPause
			lane := c.lane.share() // run may end before take does
			c.l.wg.Go(func() {
				defer func() { lane.release(); <-c.l.working }()
				c.take(in)
			})
		case c.l.ctx.Err() != nil || c.isOver():
			return
		default:
			c.l.sw.cfg.Logger.Warn("rsock: accept", "provider", c.lane.Name(), "addr", &c.place, "err", err)
			select {
			case <-time.After(pause):
			case <-c.l.closing:
			}
			pause = min(2*pause, maxAcceptPause)
		}
	}
}

// next waits for a request, and before it for a place among those that are dealt with.
func (c *companion) next() (*verbs.Incoming, error) {
	select {
	case c.l.working <- struct{}{}:
	case <-c.l.closing:
		return nil, net.ErrClosed
	}
	in, err := c.listener.Accept(c.l.ctx)
	if err != nil {
		<-c.l.working
	}
	return in, err
}

func (c *companion) isOver() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.over
}

// take deals with a request: it rejects it, or hands a connection to AcceptConn.
func (c *companion) take(in *verbs.Incoming) {
	log := c.l.sw.cfg.Logger.With("provider", c.lane.Name(), "addr", &c.place)
	call, err := c.read(in)
	if err != nil {
		log.Info("rsock: request of a stranger", "err", err, "reject", in.Reject(nil))
		return
	}
	if why := c.admit(&call); why != rejectedNot {
		no := hello{kind: helloReject, reason: why, from: call.to, to: call.from}
		log.Info("rsock: connection rejected", "peer", call.from, "reason", why.errno(), "reject", in.Reject(no.appendTo(nil)))
		return
	}
	conn, err := c.accept(in, &call)
	if err != nil {
		<-c.l.slots
		log.Info("rsock: connection not made", "peer", call.from, "err", err)
		return
	}
	c.l.ready <- conn // it has a slot, and so there is room
}

// read is the hello of a request that is for this listener.
func (c *companion) read(in *verbs.Incoming) (hello, error) {
	call, err := decodeHello(in.PrivateData(), helloRequest)
	if err != nil {
		return call, err
	}
	own := c.l.addr
	if call.to.Port() != own.Port() || !own.Addr().IsUnspecified() && call.to.Addr() != own.Addr().WithZone("") {
		return call, errHello
	}
	peer, err := in.PeerAddr()
	if err != nil {
		return call, err
	}
	if c.place.path.inside() {
		table, err := c.l.sw.subnets(c.l.ctx)
		if err != nil {
			return call, err
		}
		if !table.isOwn(call.from.Addr()) || !table.isOwn(call.to.Addr()) {
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

// admit takes a slot for a connection and asks the condition function about it.
func (c *companion) admit(call *hello) rejection {
	if c.l.ctx.Err() != nil {
		return rejectedClosing
	}
	select {
	case c.l.slots <- struct{}{}:
	default:
		return rejectedBacklog
	}
	wanted := c.l.condition == nil || c.l.condition(&Request{
		Transport: c.lane.Name(),
		Local:     net.TCPAddrFromAddrPort(call.to),
		Remote:    net.TCPAddrFromAddrPort(call.from),
	})
	switch {
	case wanted && c.l.ctx.Err() == nil:
		return rejectedNot
	case wanted:
		<-c.l.slots
		return rejectedClosing
	}
	<-c.l.slots
	return rejectedRefused
}

// accept makes the connection and negotiates.
func (c *companion) accept(in *verbs.Incoming, call *hello) (*Conn, error) {
	ctx, cancel := context.WithTimeout(c.l.ctx, c.l.sw.cfg.Negotiation)
	defer cancel()
	s, err := c.l.sw.newSession(ctx, in.Socket())
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
	return newRDMAConn(s, Transport{Name: c.lane.Name()}, call.to, call.from, c.lane.share()), nil
}

package iwarp

import (
	"context"
	"errors"
	"net"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Errors for an answered start-up.
var (
	errRejected      = errors.New("the peer rejected the connection")
	errReplyMismatch = errors.New("the reply does not match the request")
)

// acceptance is a connection that the peer accepted.
type acceptance struct {
	a           *adapter
	nc          net.Conn
	sent, reply *frame.Startup
	limits      rdma.ReadLimits // the program's limits
}

var _ softrdma.Acceptance = (*acceptance)(nil)

// Source returns an address to connect from. Only a connection attempt finds out whether
// a port is free; Source already finds most ports in use.
func (a *adapter) Source(ctx context.Context, op string, local rdma.Addr) (rdma.Addr, error) {
	if local == (rdma.Addr{}) && (!a.local.IsValid() || a.local.IsUnspecified()) {
		return local, nil
	}
	addr, err := a.tcpAddr(op, local)
	if err != nil {
		return rdma.Addr{}, err
	}
	if addr.Port != 0 {
		probe, err := listenTCP(ctx, addr)
		if err != nil {
			return rdma.Addr{}, opError(op, addr.String(), netStatus(err, rdma.StatusInvalidAddress), err)
		}
		probe.Close()
	}
	return fabricAddr(addr), nil
}

// Target checks the address to connect to.
func (a *adapter) Target(op string, remote rdma.Addr) error {
	if !remote.AddrPort.IsValid() || remote.AddrPort.Port() == 0 || remote.Fabric != "" && remote.Fabric != Name {
		return opError(op, remote.String(), rdma.StatusInvalidAddress, nil)
	}
	return nil
}

// Status returns the status for an error of a start-up.
func (a *adapter) Status(err error) rdma.Status {
	if errors.Is(err, errRejected) || isHangup(err) {
		return rdma.StatusConnectionRefused
	}
	return netStatus(err, rdma.StatusConnectionAborted)
}

// Dial opens a TCP connection and exchanges the start-up frames.
//
// Source: [ND Connector.Connect], [RFC 5044 §7.1], [RFC 6581 §9]
func (a *adapter) Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (softrdma.Acceptance, *softrdma.PeerParams, error) {
	var from *net.TCPAddr
	if local.AddrPort.IsValid() {
		from = net.TCPAddrFromAddrPort(local.AddrPort)
	}
	nc, req, reply, err := a.dial(ctx, from, net.TCPAddrFromAddrPort(remote.AddrPort), limits, private)
	var params *softrdma.PeerParams
	if reply != nil {
		params = paramsOf(reply)
	}
	if err != nil {
		return nil, params, err
	}
	return &acceptance{a: a, nc: nc, sent: req, reply: reply, limits: limits}, params, nil
}

// dial opens a connection with the preferred revision. If the peer drops it, dial tries
// again with revision 1.
//
// Source: [RFC 6581 §10]
func (a *adapter) dial(ctx context.Context, local, remote *net.TCPAddr, limits rdma.ReadLimits, private []byte) (net.Conn, *frame.Startup, *frame.Startup, error) {
	cfg := &a.p.cfg
	revisions := []uint8{2, 1}
	if cfg.Revision != 0 {
		revisions = []uint8{uint8(min(max(cfg.Revision, 1), 2))}
	}
	for i, revision := range revisions {
		req := newRequest(cfg, revision, limits, private)
		nc, reply, err := a.dialOnce(ctx, local, remote, req)
		if err == nil {
			return nc, req, reply, nil
		}
		last := i == len(revisions)-1
		if last || nc == nil || reply != nil || !isHangup(err) || ctx.Err() != nil {
			return nil, nil, reply, err
		}
		cfg.Logger.Info("iwarp: peer dropped a request, trying an older revision", "peer", remote, "revision", revision, "err", err)
	}
	return nil, nil, nil, errReplyMismatch
}

// dialOnce opens a connection with one request. If the exchange fails, the connection has
// ended; nc is then not nil if TCP itself succeeded.
func (a *adapter) dialOnce(ctx context.Context, local, remote *net.TCPAddr, req *frame.Startup) (nc net.Conn, reply *frame.Startup, err error) {
	cfg := &a.p.cfg
	dialCtx, cancel := context.WithTimeout(ctx, cfg.ReplyTimeout)
	defer cancel()
	if nc, err = cfg.Dial(dialCtx, local, remote); err != nil {
		return nil, nil, err
	}
	cfg.keepAlive(nc)
	limitStartup(nc, cfg.ReplyTimeout, cfg.WriteTimeout)
	err = softrdma.Exchange(ctx, nc, func() error {
		if err := writeStartup(nc, req); err != nil {
			return err
		}
		s, err := readStartup(nc, true)
		if err != nil {
			return err
		}
		reply = &s
		return checkReply(req, reply)
	})
	switch {
	case err == nil:
	case errors.Is(err, errNoReady):
		a.terminate(nc, req, reply, frame.FaultRTR)
	case errors.Is(err, errDepth):
		a.terminate(nc, req, reply, frame.FaultDepth)
	case errors.Is(err, errRejected):
		a.hangUp(nc)
	default:
		nc.Close()
	}
	return nc, reply, err
}

// Errors of a failed negotiation.
var (
	errNoReady = errors.New("no common ready-to-receive message")
	errDepth   = errors.New("the peer wants more reads in progress than were offered")
)

// checkReply returns nil if a reply lets the connection begin.
//
// Source: [RFC 5044 §7.1.2 rule 3], [RFC 6581 §9.1], [RFC 6581 §9.2]
func checkReply(req, reply *frame.Startup) error {
	switch {
	case reply.Reject:
		return errRejected
	case reply.Revision != req.Revision || (reply.Enhanced != nil) != (req.Enhanced != nil):
		return errReplyMismatch
	case reply.Enhanced == nil:
		return nil
	case reply.Enhanced.Outbound != frame.DepthUnnegotiated && reply.Enhanced.Outbound > req.Enhanced.Inbound:
		return errDepth
	case reply.Enhanced.PeerToPeer && readyFor(req.Enhanced, reply.Enhanced) == readyNone:
		return errNoReady
	}
	return nil
}

// terminate sends a Terminate of the start-up phase and hangs up.
func (a *adapter) terminate(nc net.Conn, req, reply *frame.Startup, f frame.Fault) {
	crc := req.CRC || reply.CRC
	nc = withMarkers(nc, reply.Markers, false, crc)
	_ = nc.SetWriteDeadline(time.Now().Add(a.p.cfg.WriteTimeout))
	if _, err := nc.Write(terminateFrame(&frame.Terminate{Fault: f}, crc)); err != nil {
		nc.Close()
		return
	}
	a.hangUp(nc)
}

// Ends returns the addresses of both sides.
func (p *acceptance) Ends() softrdma.Ends { return endsOf(p.nc) }

// Refuse ends a connection that the peer has accepted. MPA has no message for it, so the
// private data is not sent. A peer that waits for the ready-to-receive message gets a
// Terminate instead.
//
// Source: [RFC 5044 §7.1.2 rule 2], [RFC 6581 §9.2]
func (p *acceptance) Refuse([]byte) {
	if p.reply.Enhanced != nil && p.reply.Enhanced.PeerToPeer {
		p.a.terminate(p.nc, p.sent, p.reply, frame.FaultStartup)
		return
	}
	p.a.hangUp(p.nc)
}

// Complete begins full operation. If both sides agreed on a ready-to-receive message,
// Complete sends it.
//
// Source: [ND Connector.CompleteConnect], [RFC 6581 §9.2]
func (p *acceptance) Complete(ctx context.Context, qp softrdma.Pair, end func(error)) (softrdma.Conn, error) {
	pair := qp.(*queuePair)
	crc := p.sent.CRC || p.reply.CRC
	nc := withMarkers(p.nc, p.reply.Markers, p.sent.Markers, crc)
	conn := newConn(p.a, pair, nc, crc, finalLimits(p.sent.Enhanced, p.reply.Enhanced, p.limits), end)
	conn.active = true
	var ready []byte
	if e := p.reply.Enhanced; e != nil && e.PeerToPeer {
		ready = conn.readyMessage(readyFor(p.sent.Enhanced, e))
	}
	err := p.sendReady(ctx, conn.nc, ready)
	if err == nil && !pair.attach(conn) {
		err = net.ErrClosed
	}
	if err != nil {
		conn.nc.Close()
		return nil, err
	}
	pair.connect(false)
	go conn.run()
	return conn, nil
}

// sendReady writes the ready-to-receive message.
func (p *acceptance) sendReady(ctx context.Context, nc net.Conn, frame []byte) error {
	if len(frame) == 0 {
		return nil
	}
	_ = nc.SetWriteDeadline(time.Now().Add(p.a.p.cfg.WriteTimeout))
	return softrdma.Exchange(ctx, nc, func() error {
		_, err := nc.Write(frame)
		return err
	})
}

// request is a connection that has sent its request.
type request struct {
	a   *adapter
	nc  net.Conn
	req frame.Startup
}

var _ softrdma.Request = (*request)(nil)

// Ends returns the addresses of both sides.
func (r *request) Ends() softrdma.Ends { return endsOf(r.nc) }

// Refuse answers with a rejection and waits for the peer's close.
func (r *request) Refuse(private []byte) {
	cfg := &r.a.p.cfg
	reply := newReply(cfg, &r.req, rdma.ReadLimits{}, private)
	reply.Reject = true
	limitStartup(r.nc, cfg.RequestTimeout, cfg.WriteTimeout)
	if err := writeStartup(r.nc, reply); err != nil {
		r.nc.Close()
		return
	}
	r.a.drain(r.nc)
}

// Accept answers the request. If both sides agreed on a ready-to-receive message, Accept
// waits for it: it is the peer's CompleteConnect. Otherwise Accept returns at once, and
// posted requests are held back until a frame arrives.
//
// Source: [ND Connector.Accept], [RFC 5044 §7.1.2 rule 4], [RFC 6581 §9.2]
func (r *request) Accept(ctx context.Context, qp softrdma.Pair, limits rdma.ReadLimits, private []byte, end func(error)) (softrdma.Conn, error) {
	pair := qp.(*queuePair)
	reply := newReply(&r.a.p.cfg, &r.req, limits, private)
	if err := r.answer(ctx, reply); err != nil {
		r.nc.Close()
		return nil, err
	}
	nc := withMarkers(r.nc, r.req.Markers, reply.Markers, reply.CRC)
	conn := newConn(pair.a, pair, nc, reply.CRC, grantedLimits(reply, &r.req, limits), end)
	if !pair.attach(conn) {
		conn.nc.Close()
		return nil, net.ErrClosed
	}
	wait := reply.Enhanced != nil && reply.Enhanced.PeerToPeer
	if !wait {
		pair.connect(true)
	}
	go conn.run()
	if wait {
		return conn, conn.awaitReady(ctx)
	}
	return conn, nil
}

// answer sends the reply.
func (r *request) answer(ctx context.Context, reply *frame.Startup) error {
	limitStartup(r.nc, r.a.p.cfg.RequestTimeout, r.a.p.cfg.WriteTimeout)
	return softrdma.Exchange(ctx, r.nc, func() error { return writeStartup(r.nc, reply) })
}

// awaitReady waits for the peer's first frame. If none arrives, the connection ends.
func (c *conn) awaitReady(ctx context.Context) error {
	limit := time.NewTimer(c.a.p.cfg.ReadyTimeout)
	defer limit.Stop()
	var err error
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		select {
		case <-c.ready: // the connection became ready before it ended
			return nil
		default:
		}
		return softrdma.ErrGaveUp
	case <-ctx.Done():
		err = net.ErrClosed
	case <-limit.C:
		err = softrdma.ErrNotReady
	}
	c.end(&ending{err: opError("connection", c.peer, rdma.StatusConnectionInvalid, net.ErrClosed), abort: true})
	return err
}

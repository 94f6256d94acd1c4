package iwarp

import (
	"context"
	"errors"
	"net"
	"time"

	"lwio/rdma"
)

// Errors of a start-up that the peer answered.
var (
	errRejected      = errors.New("the peer rejected the connection")
	errReplyMismatch = errors.New("the reply does not match the request")
)

// Connect opens TCP and exchanges the start-up frames.
//
// Source: [ND Connector.Connect], [RFC 5044 §7.1], [RFC 6581 §9]
func (c *connector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, limits rdma.ReadLimits, privateData []byte) error {
	const op = "connect"
	pair, ok := qp.(*queuePair)
	switch {
	case !ok || pair == nil || pair.a != c.a:
		return opError(op, remote.String(), rdma.StatusInvalidParameter, errors.New("queue pair of another adapter"))
	case !remote.AddrPort.IsValid() || remote.AddrPort.Port() == 0 || remote.Fabric != "" && remote.Fabric != Name:
		return opError(op, remote.String(), rdma.StatusInvalidAddress, nil)
	case len(privateData) > c.a.Info().MaxCallerData:
		return opError(op, remote.String(), rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "iwarp: "+op, remote.String())
	}
	c.mu.Lock()
	if err := c.connectableLocked(remote.String()); err != nil {
		c.mu.Unlock()
		return err
	}
	if err := pair.reserve(op); err != nil {
		c.mu.Unlock()
		return err
	}
	local := c.local
	work := c.beginLocked(ctx, phaseConnecting)
	c.mu.Unlock()

	nc, req, reply, err := c.a.dial(work, local, net.TCPAddrFromAddrPort(remote.AddrPort), limits, privateData)
	if err != nil && work.Err() != nil && ctx.Err() == nil {
		err = opError(op, remote.String(), rdma.StatusCanceled, net.ErrClosed)
	} else if err != nil {
		err = connectError(ctx, remote.String(), err)
	}
	c.mu.Lock()
	if reply != nil {
		c.private, c.limits, c.known = reply.private, peerLimits(reply.enhanced), true
	}
	if err == nil {
		c.nc, c.qp, c.sent, c.reply, c.own = nc, pair, req, reply, limits
	}
	c.mu.Unlock()
	if err != nil {
		pair.unreserve()
		c.finish(phaseIdle)
		return err
	}
	if c.finish(phaseReplied) {
		return opError(op, remote.String(), rdma.StatusCanceled, net.ErrClosed)
	}
	return nil
}

// connectableLocked tells whether a Connect may begin.
func (c *connector) connectableLocked(object string) error {
	switch {
	case c.closed:
		return opError("connect", object, rdma.StatusInvalidHandle, nil)
	case c.phase == phaseDead:
		return opError("connect", object, rdma.StatusInvalidDeviceState, nil)
	case c.phase != phaseIdle:
		return opError("connect", object, rdma.StatusConnectionActive, nil)
	}
	return nil
}

// connectError is the error of Connect for what went wrong.
func connectError(ctx context.Context, object string, err error) error {
	const op = "connect"
	switch {
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "iwarp: "+op, object)
	case errors.Is(err, errRejected):
		return opError(op, object, rdma.StatusConnectionRefused, err)
	case isHangup(err):
		return opError(op, object, rdma.StatusConnectionRefused, err)
	}
	return opError(op, object, netStatus(err, rdma.StatusConnectionAborted), err)
}

// dial opens a connection with the preferred revision, and again with revision 1
// if the peer drops that.
//
// Source: [RFC 6581 §9.1]
func (a *adapter) dial(ctx context.Context, local, remote *net.TCPAddr, limits rdma.ReadLimits, private []byte) (net.Conn, *startup, *startup, error) {
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

// dialOnce opens a connection with one request. If the exchange fails the
// connection is over, and nc is there only to tell that TCP itself succeeded.
func (a *adapter) dialOnce(ctx context.Context, local, remote *net.TCPAddr, req *startup) (nc net.Conn, reply *startup, err error) {
	cfg := &a.p.cfg
	dialCtx, cancel := context.WithTimeout(ctx, cfg.ReplyTimeout)
	defer cancel()
	if nc, err = cfg.Dial(dialCtx, local, remote); err != nil {
		return nil, nil, err
	}
	limitStartup(nc, cfg.ReplyTimeout, cfg.WriteTimeout)
	stop := watch(ctx, nc)
	if err = writeStartup(nc, req); err == nil {
		var s startup
		if s, err = readStartup(nc, true); err == nil {
			reply = &s
			err = checkReply(req, reply)
		}
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	switch {
	case err == nil:
	case errors.Is(err, errNoReady):
		a.terminate(nc, req, reply, faultRTR)
	case errors.Is(err, errDepth):
		a.terminate(nc, req, reply, faultDepth)
	case errors.Is(err, errRejected):
		a.hangUp(nc)
	default:
		nc.Close()
	}
	return nc, reply, err
}

// Errors of what the two sides cannot agree on.
var (
	errNoReady = errors.New("no common ready-to-receive message")
	errDepth   = errors.New("the peer wants more reads in progress than were offered")
)

// checkReply tells whether a reply lets the connection begin.
//
// Source: [RFC 5044 §7.1.2 rule 3], [RFC 6581 §9.2]
func checkReply(req, reply *startup) error {
	switch {
	case reply.reject:
		return errRejected
	case reply.revision != req.revision || (reply.enhanced != nil) != (req.enhanced != nil):
		return errReplyMismatch
	case reply.enhanced == nil:
		return nil
	case reply.enhanced.outbound != depthUnnegotiated && reply.enhanced.outbound > req.enhanced.inbound:
		return errDepth
	case reply.enhanced.peerToPeer && readyFor(req.enhanced, reply.enhanced) == readyNone:
		return errNoReady
	}
	return nil
}

// giveUp ends a connection that the peer has accepted and this side will not
// complete. A peer that waits for the ready-to-receive message gets a Terminate in
// its place.
//
// Source: [RFC 6581 §9.3]
func (a *adapter) giveUp(nc net.Conn, req, reply *startup) {
	if reply.enhanced != nil && reply.enhanced.peerToPeer {
		a.terminate(nc, req, reply, faultStartup)
		return
	}
	a.hangUp(nc)
}

// terminate sends a Terminate of the start-up phase and hangs up.
func (a *adapter) terminate(nc net.Conn, req, reply *startup, f fault) {
	crc := req.crc || reply.crc
	nc = withMarkers(nc, reply.markers, false, crc)
	t := terminate{fault: f}
	h := untaggedSegment(opTerminate, queueTerminate, 1, 0, true)
	_ = nc.SetWriteDeadline(time.Now().Add(a.p.cfg.WriteTimeout))
	if _, err := nc.Write(appendFPDU(nil, t.appendTo(h.appendTo(nil)), crc)); err != nil {
		nc.Close()
		return
	}
	a.hangUp(nc)
}

// CompleteConnect begins full operation; where both sides agreed on that, it
// tells the peer so by a first message.
//
// Source: [ND Connector.CompleteConnect], [RFC 6581 §9.3]
func (c *connector) CompleteConnect(ctx context.Context) error {
	const op = "complete connect"
	c.mu.Lock()
	if c.phase != phaseReplied {
		c.mu.Unlock()
		return opError(op, "", rdma.StatusConnectionInvalid, nil)
	}
	if ctx.Err() != nil {
		c.mu.Unlock()
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	work := c.beginLocked(ctx, phaseAccepting)
	nc, pair := c.nc, c.qp
	limits := finalLimits(c.sent.enhanced, c.reply.enhanced, c.own)
	crc := c.sent.crc || c.reply.crc
	nc = withMarkers(nc, c.reply.markers, c.sent.markers, crc)
	conn := newConn(c.a, pair, nc, crc, limits, c.closeDone)
	conn.active = true
	var ready []byte
	if e := c.reply.enhanced; e != nil && e.peerToPeer {
		ready = conn.readyMessage(readyFor(c.sent.enhanced, e))
	}
	c.mu.Unlock()
	err := c.sendReady(work, conn.nc, ready)
	if err == nil && !pair.attach(conn) {
		err = net.ErrClosed
	}
	if err != nil {
		conn.nc.Close()
		pair.unreserve()
		c.mu.Lock()
		c.nc, c.qp = nil, nil
		c.mu.Unlock()
		c.finish(phaseDead)
		c.closeDone()
		if ctx.Err() != nil {
			return rdma.CanceledBy(ctx, "iwarp: "+op, conn.peer)
		}
		return opError(op, conn.peer, netStatus(err, rdma.StatusConnectionAborted), err)
	}
	pair.connect(false)
	c.begun(conn)
	c.finish(phaseConnected)
	return nil
}

// begun starts a connection's goroutine and makes the connector its owner.
func (c *connector) begun(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c, c.nc = conn, nil
	go conn.run()
}

// sendReady writes the ready-to-receive message.
func (c *connector) sendReady(ctx context.Context, nc net.Conn, frame []byte) error {
	if len(frame) == 0 {
		return nil
	}
	_ = nc.SetWriteDeadline(time.Now().Add(c.a.p.cfg.WriteTimeout))
	stop := watch(ctx, nc)
	_, err := nc.Write(frame)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return err
}

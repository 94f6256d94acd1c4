package iwarp

import (
	"context"
	"errors"
	"net"
	"time"

	"lwio/rdma"
)

// Accept answers the request. Where the two sides agreed on a first message of
// the active side, it waits for that, which is the peer's CompleteConnect; else it
// returns at once, and what is posted is held back until something arrived.
//
// Source: [ND Connector.Accept], [RFC 5044 §7.1.2 rule 4], [RFC 6581 §9.3]
func (c *connector) Accept(ctx context.Context, qp rdma.QueuePair, limits rdma.ReadLimits, privateData []byte) error {
	const op = "accept"
	pair, ok := qp.(*queuePair)
	switch {
	case !ok || pair == nil || pair.a != c.a:
		return opError(op, "", rdma.StatusInvalidParameter, errors.New("queue pair of another adapter"))
	case len(privateData) > c.a.Info().MaxCalleeData:
		return opError(op, "private data", rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	c.mu.Lock()
	if c.phase != phaseRequested {
		defer c.mu.Unlock()
		return opError(op, "", c.acceptStatusLocked(), nil)
	}
	if err := pair.reserve(op); err != nil {
		c.mu.Unlock()
		return err
	}
	work := c.beginLocked(ctx, phaseAccepting)
	nc, req := c.nc, c.sent
	c.mu.Unlock()

	reply := newReply(&c.a.p.cfg, req, limits, privateData)
	conn, err := c.answer(work, nc, pair, reply, req.markers, grantedLimits(reply, req, limits))
	if err == nil && reply.enhanced != nil && reply.enhanced.peerToPeer {
		err = c.awaitReady(work, conn)
	}
	if err == nil && !c.finish(phaseConnected) {
		return nil
	}
	if err == nil {
		err = net.ErrClosed
	} else {
		c.mu.Lock()
		c.nc = nil
		c.mu.Unlock()
		c.finish(phaseDead)
	}
	if conn != nil {
		<-conn.finished
	} else {
		nc.Close()
		pair.unreserve()
		c.closeDone()
	}
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "iwarp: "+op, nc.RemoteAddr().String())
	}
	return acceptError(nc.RemoteAddr().String(), err)
}

// acceptStatusLocked is why there is nothing to accept.
func (c *connector) acceptStatusLocked() rdma.Status {
	switch c.phase {
	case phaseConnecting, phaseReplied, phaseAccepting, phaseConnected:
		return rdma.StatusConnectionActive
	}
	return rdma.StatusConnectionInvalid
}

// acceptError is the error of Accept for what went wrong. A peer that gave up
// after it had its answer refused it as much as it aborted the connection.
// [ND §9 NdConnReject]
func acceptError(object string, err error) error {
	const op = "accept"
	switch {
	case errors.Is(err, errNotReady):
		return opError(op, object, rdma.StatusIOTimeout, err)
	case errors.Is(err, errGaveUp):
		return opError(op, object, rdma.StatusConnectionRefused, errors.Join(rdma.StatusConnectionAborted, err))
	case errors.Is(err, net.ErrClosed):
		return opError(op, object, rdma.StatusCanceled, err)
	}
	return opError(op, object, rdma.StatusConnectionAborted, err)
}

// Errors of waiting for the peer after the reply.
var (
	errNotReady = errors.New("the peer did not complete the connection in time")
	errGaveUp   = errors.New("the peer gave the connection up")
)

// answer sends the reply and starts the connection; markers says that the peer
// wants some.
func (c *connector) answer(ctx context.Context, nc net.Conn, pair *queuePair, reply *startup, markers bool, limits rdma.ReadLimits) (*conn, error) {
	limitStartup(nc, c.a.p.cfg.RequestTimeout, c.a.p.cfg.WriteTimeout)
	stop := watch(ctx, nc)
	err := writeStartup(nc, reply)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, err
	}
	conn := newConn(c.a, pair, withMarkers(nc, markers, reply.markers, reply.crc), reply.crc, limits, c.closeDone)
	if !pair.attach(conn) {
		conn.nc.Close()
		return nil, net.ErrClosed
	}
	if reply.enhanced == nil || !reply.enhanced.peerToPeer {
		pair.connect(true)
	}
	c.begun(conn)
	return conn, nil
}

// awaitReady waits for the peer's first frame.
func (c *connector) awaitReady(ctx context.Context, conn *conn) error {
	limit := time.NewTimer(c.a.p.cfg.ReadyTimeout)
	defer limit.Stop()
	var err error
	select {
	case <-conn.ready:
		return nil
	case <-conn.ended:
		select {
		case <-conn.ready: // and then it ended
			return nil
		default:
		}
		return errGaveUp
	case <-ctx.Done():
		err = net.ErrClosed
	case <-limit.C:
		err = errNotReady
	}
	conn.end(&ending{err: opError("connection", conn.peer, rdma.StatusConnectionInvalid, net.ErrClosed), abort: true})
	return err
}

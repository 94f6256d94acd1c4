//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// Accept answers the request and waits for the peer's CompleteConnect.
//
// Source: [ND Connector.Accept]
func (c *connector) Accept(ctx context.Context, qp rdma.QueuePair, limits rdma.ReadLimits, privateData []byte) error {
	const op = "accept"
	pair, ok := qp.(*queuePair)
	switch {
	case !ok || pair == nil || pair.a != c.a:
		return opError(op, "", rdma.StatusInvalidParameter, errors.New("queue pair of another adapter"))
	case len(privateData) > maxPrivateData:
		return opError(op, "private data", rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "shm: "+op, "")
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
	nc, limits := c.nc, agree(limits, c.heard)
	c.mu.Unlock()

	own, peer, b, err := c.a.answer(work, nc, &hello{kind: helloAccept, limits: limits, private: privateData})
	closed := work.Err() != nil && ctx.Err() == nil
	if err == nil {
		err = c.begin(nc, pair, own, peer, b, limits)
	}
	c.mu.Lock()
	c.nc = nil
	c.mu.Unlock()
	if err == nil {
		c.finish(phaseConnected)
		return nil
	}
	c.giveUp(nc, own, peer, b, pair)
	name := nameOf(nc.RemoteAddr())
	switch {
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "shm: "+op, name)
	case closed || errors.Is(err, net.ErrClosed):
		return opError(op, name, rdma.StatusCanceled, err)
	case errors.Is(err, errNotReady):
		return opError(op, name, rdma.StatusIOTimeout, err)
	case errors.Is(err, errGaveUp):
		return opError(op, name, rdma.StatusConnectionRefused, errors.Join(rdma.StatusConnectionAborted, err))
	}
	return opError(op, name, rdma.StatusConnectionAborted, err)
}

// acceptStatusLocked is why there is nothing to accept.
func (c *connector) acceptStatusLocked() rdma.Status {
	switch c.phase {
	case phaseConnecting, phaseReplied, phaseAccepting, phaseConnected:
		return rdma.StatusConnectionActive
	}
	return rdma.StatusConnectionInvalid
}

// answer sends the acceptance with this side's segment and the other end of a
// bell, and waits for the peer's segment.
func (a *adapter) answer(ctx context.Context, nc *net.UnixConn, h *hello) (own, peer *segment, b *bell, err error) {
	b, other, err := newBell()
	if err != nil {
		return nil, nil, nil, err
	}
	own, err = a.sendSegment(ctx, nc, h, other)
	_ = unix.Close(other)
	if err != nil {
		if isHangup(err) {
			err = errors.Join(errGaveUp, err)
		}
		return own, nil, b, err
	}
	_ = nc.SetDeadline(time.Now().Add(a.p.cfg.ReadyTimeout))
	stop := watch(ctx, nc)
	ready, peer, extra, err := receiveHello(nc)
	extra.close() // there is none with ready
	canceled := !stop()
	switch {
	case err == nil && ready.kind == helloReady && !canceled:
		return own, peer, b, nc.SetDeadline(time.Time{})
	case canceled:
		err = context.Cause(ctx)
	case err == nil && ready.kind == helloReject, isHangup(err):
		err = errGaveUp
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errNotReady
	case err == nil:
		err = errHello
	}
	return own, peer, b, err
}

//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// dialPause is how long a dial waits for room in the listener's queue.
const dialPause = 2 * time.Millisecond

// Connect opens the socket and waits for the answer to the request.
//
// Source: [ND Connector.Connect]
func (c *connector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, limits rdma.ReadLimits, privateData []byte) error {
	const op = "connect"
	pair, ok := qp.(*queuePair)
	switch {
	case !ok || pair == nil || pair.a != c.a:
		return opError(op, remote.String(), rdma.StatusInvalidParameter, errors.New("queue pair of another adapter"))
	case remote.Fabric == Name && remote.Host != c.a.host && remote.Host != [16]byte{}:
		return opError(op, remote.String(), rdma.StatusHostUnreachable, errors.New("it is on another host"))
	case !c.a.ours(remote) || remote.Name == "":
		return opError(op, remote.String(), rdma.StatusInvalidAddress, nil)
	case len(privateData) > maxPrivateData:
		return opError(op, remote.String(), rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "shm: "+op, remote.String())
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
	local := c.name
	work := c.beginLocked(ctx, phaseConnecting)
	c.mu.Unlock()

	nc, reply, peer, b, err := c.a.dial(work, local, remote.Name, &hello{kind: helloRequest, limits: limits, private: privateData})
	c.mu.Lock()
	if reply != nil {
		c.heard = reply
	}
	if err == nil {
		c.nc, c.qp, c.peer, c.bell, c.wishes = nc, pair, peer, b, limits
	}
	c.mu.Unlock()
	if err != nil {
		canceled := work.Err() != nil && ctx.Err() == nil
		pair.unreserve()
		c.finish(phaseIdle)
		switch {
		case ctx.Err() != nil:
			return rdma.CanceledBy(ctx, "shm: "+op, remote.String())
		case canceled:
			return opError(op, remote.String(), rdma.StatusCanceled, net.ErrClosed)
		}
		return opError(op, remote.String(), statusOf(err), err)
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

// dial opens a socket, checks who is there, and exchanges request and answer. A
// rejection comes back with errRejected.
func (a *adapter) dial(ctx context.Context, local, remote string, req *hello) (nc *net.UnixConn, reply *hello, peer *segment, b *bell, err error) {
	cfg := &a.p.cfg
	limited, cancel := context.WithTimeout(ctx, cfg.ReplyTimeout)
	defer cancel()
	if nc, err = openSocket(limited, local, remote); err != nil {
		return nil, nil, nil, nil, err
	}
	stop := watch(limited, nc)
	if err = cfg.checkUser(nc); err == nil {
		err = sendHello(nc, req)
	}
	if err == nil || isHangup(err) {
		// The listener may have answered and hung up before it read anything.
		var h hello
		if h, peer, b, err = receiveHello(nc); err == nil {
			reply = &h
		}
	}
	switch {
	case err != nil:
	case reply.kind == helloReject:
		err = errRejected
	case reply.kind == helloForbidden:
		err = errForbidden
	case reply.kind != helloAccept:
		err = errHello
	}
	if !stop() && err == nil {
		err = context.Cause(limited)
	}
	if err != nil {
		nc.Close()
		peer.unmap()
		b.close()
		return nil, reply, nil, nil, err
	}
	return nc, reply, peer, b, nil
}

// openSocket connects; a listener whose queue is full is tried again.
func openSocket(ctx context.Context, local, remote string) (*net.UnixConn, error) {
	if local == "" {
		local = randomName()
	}
	d := net.Dialer{LocalAddr: sockAddr(local)}
	for {
		nc, err := d.DialContext(ctx, "unixpacket", "@"+remote)
		if err == nil {
			return nc.(*net.UnixConn), nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(dialPause):
		}
	}
}

// CompleteConnect sends this side's segment, and the connection has begun.
//
// Source: [ND Connector.CompleteConnect]
func (c *connector) CompleteConnect(ctx context.Context) error {
	const op = "complete connect"
	c.mu.Lock()
	if c.phase != phaseReplied {
		c.mu.Unlock()
		return opError(op, "", rdma.StatusConnectionInvalid, nil)
	}
	if ctx.Err() != nil {
		c.mu.Unlock()
		return rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	work := c.beginLocked(ctx, phaseAccepting)
	nc, peer, b, pair, limits := c.nc, c.peer, c.bell, c.qp, agree(c.wishes, c.heard)
	c.nc, c.peer, c.bell, c.qp = nil, nil, nil, nil
	c.mu.Unlock()

	own, err := c.a.sendSegment(work, nc, &hello{kind: helloReady})
	if err == nil {
		err = c.begin(nc, pair, own, peer, b, limits)
	}
	if err != nil {
		c.giveUp(nc, own, peer, b, pair)
		if ctx.Err() != nil {
			return rdma.CanceledBy(ctx, "shm: "+op, nameOf(nc.RemoteAddr()))
		}
		return opError(op, nameOf(nc.RemoteAddr()), completeStatus(err), err)
	}
	c.finish(phaseConnected)
	return nil
}

// completeStatus is the status of a handshake that failed after the answer.
func completeStatus(err error) rdma.Status {
	switch s := statusOf(err); s {
	case rdma.StatusConnectionRefused:
		return rdma.StatusConnectionAborted
	default:
		return s
	}
}

// sendSegment makes this side's segment and sends it, and other descriptors.
func (a *adapter) sendSegment(ctx context.Context, nc *net.UnixConn, h *hello, others ...int) (*segment, error) {
	fd, own, err := newOwnSegment(a.p.cfg.RingSize)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	h.ring = uint32(len(own.ring))
	_ = nc.SetDeadline(time.Now().Add(a.p.cfg.RequestTimeout))
	stop := watch(ctx, nc)
	err = sendHello(nc, h, append([]int{fd}, others...)...)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return own, err
}

// begin makes the connection and starts its goroutine.
func (c *connector) begin(nc *net.UnixConn, pair *queuePair, own, peer *segment, b *bell, limits rdma.ReadLimits) error {
	conn, err := newConn(c.a, pair, nc, own, peer, b, limits, c.closeDone)
	if err != nil {
		return err
	}
	if !pair.attach(conn) {
		return net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c = conn
	go conn.run()
	return nil
}

// giveUp frees everything of a connection that did not begin.
func (c *connector) giveUp(nc *net.UnixConn, own, peer *segment, b *bell, pair *queuePair) {
	nc.Close()
	own.unmap()
	peer.unmap()
	b.close()
	pair.unreserve()
	c.finish(phaseDead)
	c.closeDone()
}

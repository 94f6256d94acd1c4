//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// dialPause is how long a dial waits for room in the listener's queue.
const dialPause = 2 * time.Millisecond

// acceptance is a connection whose peer accepted.
type acceptance struct {
	a      *adapter
	nc     *net.UnixConn
	reply  *hello
	peer   *ring.Segment
	bell   *ring.Doorbell
	limits rdma.ReadLimits // of the program
}

var _ softrdma.Acceptance = (*acceptance)(nil)

// Source is a name to connect from; no name leaves it to the provider. That a name
// is free is known only when it is taken.
func (a *adapter) Source(_ context.Context, op string, local rdma.Addr) (rdma.Addr, error) {
	if !a.ours(local) {
		return rdma.Addr{}, opError(op, local.String(), rdma.StatusInvalidAddress, nil)
	}
	return local, nil
}

// Target checks where to connect to.
func (a *adapter) Target(op string, remote rdma.Addr) error {
	switch {
	case remote.Fabric == Name && remote.Host != a.host && remote.Host != [16]byte{}:
		return opError(op, remote.String(), rdma.StatusHostUnreachable, errors.New("it is on another host"))
	case !a.ours(remote) || remote.Name == "":
		return opError(op, remote.String(), rdma.StatusInvalidAddress, nil)
	}
	return nil
}

// Status is that of an error of a start-up.
func (a *adapter) Status(err error) rdma.Status { return statusOf(err) }

// Dial opens the socket and waits for the answer to the request.
//
// Source: [ND Connector.Connect]
func (a *adapter) Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (softrdma.Acceptance, *softrdma.PeerParams, error) {
	nc, reply, peer, b, err := a.dial(ctx, local.Name, remote.Name, &hello{kind: helloRequest, limits: limits, private: private})
	var heard *softrdma.PeerParams
	if reply != nil {
		heard = reply.heard()
	}
	if err != nil {
		return nil, heard, err
	}
	return &acceptance{a: a, nc: nc, reply: reply, peer: peer, bell: b, limits: limits}, heard, nil
}

// dial opens a socket, checks who is there, and exchanges request and answer. A
// rejection comes back with errRejected.
func (a *adapter) dial(ctx context.Context, local, remote string, req *hello) (nc *net.UnixConn, reply *hello, peer *ring.Segment, b *ring.Doorbell, err error) {
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
		peer.Unmap()
		b.Close()
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

// Ends are the two addresses.
func (p *acceptance) Ends() softrdma.Ends { return p.a.endsOf(p.nc) }

// Refuse rejects the acceptance; the peer learns only that it was refused.
func (p *acceptance) Refuse(private []byte) {
	refuse(p.nc, private)
	p.peer.Unmap()
	p.bell.Close()
}

// Complete sends this side's segment, and the connection has begun.
//
// Source: [ND Connector.CompleteConnect]
func (p *acceptance) Complete(ctx context.Context, pair softrdma.Pair, end func(error)) (softrdma.Conn, error) {
	own, err := p.a.sendSegment(ctx, p.nc, &hello{kind: helloReady})
	return begin(err, p.nc, pair, own, p.peer, p.bell, agree(p.limits, p.reply), end)
}

// sendSegment makes this side's segment and sends it, and other descriptors.
func (a *adapter) sendSegment(ctx context.Context, nc *net.UnixConn, h *hello, others ...int) (*ring.Segment, error) {
	fds, own, err := ring.NewSegment(a.p.cfg.RingSize)
	if err != nil {
		return nil, err
	}
	defer fds.Close()
	h.ring = uint32(len(own.Ring))
	_ = nc.SetDeadline(time.Now().Add(a.p.cfg.RequestTimeout))
	stop := watch(ctx, nc)
	err = sendHello(nc, h, append(fds[:], others...)...)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return own, err
}

// begin makes the connection and starts its goroutine, unless its start-up failed
// with err: then, or if it fails now, everything is freed.
func begin(err error, nc *net.UnixConn, pair softrdma.Pair, own, peer *ring.Segment, b *ring.Doorbell, limits rdma.ReadLimits, end func(error)) (softrdma.Conn, error) {
	qp := pair.(*queuePair)
	var c *conn
	if err == nil {
		c, err = newConn(qp.a, qp, nc, own, peer, b, limits, end)
	}
	if err == nil && !qp.attach(c) {
		err = net.ErrClosed
	}
	if err != nil {
		nc.Close()
		own.Unmap()
		peer.Unmap()
		b.Close()
		return nil, err
	}
	go c.run()
	return c, nil
}

//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// dialPause is the time between two attempts to connect while the listener's queue is
// full.
const dialPause = 2 * time.Millisecond

// acceptance is a connection that the peer has accepted.
type acceptance struct {
	a        *adapter
	nc       *net.UnixConn
	uid      uint32
	reply    *hello
	peer     *ring.Segment
	doorbell *ring.Doorbell
	limits   rdma.ReadLimits // limits of the program
}

var _ softrdma.Acceptance = (*acceptance)(nil)

// Source checks a name to connect from; for an empty name the provider chooses one. Only
// a connection attempt finds out whether a name is free.
func (a *adapter) Source(_ context.Context, op string, local rdma.Addr) (rdma.Addr, error) {
	if !a.ours(local) {
		return rdma.Addr{}, opError(op, local.String(), rdma.StatusInvalidAddress, nil)
	}
	return local, nil
}

// Target checks the address to connect to.
func (a *adapter) Target(op string, remote rdma.Addr) error {
	switch {
	case remote.Fabric == Name && remote.Host != a.host && remote.Host != [16]byte{}:
		return opError(op, remote.String(), rdma.StatusHostUnreachable, errors.New("it is on another host"))
	case !a.ours(remote) || remote.Name == "":
		return opError(op, remote.String(), rdma.StatusInvalidAddress, nil)
	}
	return nil
}

// Status returns the status for an error of a start-up.
func (a *adapter) Status(err error) rdma.Status { return statusOf(err) }

// Dial opens the socket and waits for the answer to the request.
//
// Source: [ND Connector.Connect]
func (a *adapter) Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (softrdma.Acceptance, *softrdma.PeerParams, error) {
	p, err := a.dial(ctx, local.Name, remote.Name, &hello{kind: helloRequest, limits: limits, private: private})
	var params *softrdma.PeerParams
	if p != nil && p.reply != nil {
		params = p.reply.params()
	}
	if err != nil {
		return nil, params, err
	}
	return p, params, nil
}

// dial opens a socket, checks the user of the peer, and exchanges request and answer. A
// rejection is errRejected, and comes with the answer.
func (a *adapter) dial(ctx context.Context, local, remote string, req *hello) (*acceptance, error) {
	limited, cancel := context.WithTimeout(ctx, a.p.cfg.ReplyTimeout)
	defer cancel()
	nc, err := openSocket(limited, local, remote)
	if err != nil {
		return nil, err
	}
	uid, err := a.p.checkUser(nc)
	if err == nil {
		err = acceptRights(nc)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	p := &acceptance{a: a, nc: nc, uid: uid, limits: req.limits}
	free := func() { p.peer.Unmap(); p.doorbell.Close() }
	var failed error
	if !a.p.foreign.call(limited, uid, func() { failed = p.ask(limited, req) }, free) {
		a.p.foreign.hangUp(uid, nc)
		return nil, os.ErrDeadlineExceeded
	}
	if failed != nil {
		free()
		a.p.foreign.hangUp(uid, nc)
	}
	return p, failed
}

// ask sends the request and reads the answer.
func (p *acceptance) ask(ctx context.Context, req *hello) error {
	return softrdma.Exchange(ctx, p.nc, func() error {
		err := sendHello(p.nc, req)
		if err != nil && !softrdma.IsHangup(err) {
			return err
		}
		// The listener may answer and hang up before it reads the request.
		h, peer, b, err := p.a.p.foreign.receiveHello(p.nc, p.uid, acceptFDs)
		if err != nil {
			return err
		}
		p.reply, p.peer, p.doorbell = &h, peer, b
		return h.refusal()
	})
}

// openSocket connects. It tries again while the queue of the listener is full. The peer cannot
// send descriptors before acceptRights.
func openSocket(ctx context.Context, local, remote string) (*net.UnixConn, error) {
	if local == "" {
		local = randomName()
	}
	d := net.Dialer{LocalAddr: sockAddr(local), Control: denyRights}
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

// Ends returns the addresses of both sides.
func (p *acceptance) Ends() softrdma.Ends { return p.a.endsOf(p.nc) }

// Refuse rejects the acceptance. The peer learns of the rejection, but not of its cause.
func (p *acceptance) Refuse(private []byte) {
	p.a.p.refuse(p.nc, p.uid, private)
	p.peer.Unmap()
	p.doorbell.Close()
}

// Complete sends this side's segment. The connection then begins.
//
// Source: [ND Connector.CompleteConnect]
func (p *acceptance) Complete(ctx context.Context, pair softrdma.Pair, end func(error)) (softrdma.Conn, error) {
	own, err := p.a.sendSegment(ctx, p.nc, &hello{kind: helloReady})
	return begin(err, p.nc, p.uid, pair, own, p.peer, p.doorbell, agree(p.limits, p.reply), end)
}

// sendSegment makes this side's segment and sends it, together with other descriptors.
func (a *adapter) sendSegment(ctx context.Context, nc *net.UnixConn, h *hello, others ...int) (*ring.Segment, error) {
	fds, own, err := ring.NewSegment(a.p.cfg.RingSize)
	if err != nil {
		return nil, err
	}
	defer fds.Close()
	h.ring = uint32(len(own.Ring))
	_ = nc.SetDeadline(time.Now().Add(a.p.cfg.RequestTimeout))
	err = softrdma.Exchange(ctx, nc, func() error { return sendHello(nc, h, append(fds[:], others...)...) })
	return own, err
}

// begin makes the connection and starts its goroutine. If err is not nil, or if begin
// fails itself, it frees all resources.
func begin(err error, nc *net.UnixConn, uid uint32, pair softrdma.Pair, own, peer *ring.Segment, b *ring.Doorbell, limits rdma.ReadLimits, end func(error)) (softrdma.Conn, error) {
	qp := pair.(*queuePair)
	var c *conn
	if err == nil {
		c, err = newConn(qp.a, qp, nc, uid, own, peer, b, limits, end)
	}
	if err == nil && !qp.attach(c) {
		err = net.ErrClosed
	}
	if err != nil {
		qp.a.p.foreign.hangUp(uid, nc)
		own.Unmap()
		peer.Unmap()
		b.Close()
		return nil, err
	}
	go c.run()
	return c, nil
}

// request is a connection request that has arrived.
type request struct {
	a   *adapter
	nc  *net.UnixConn
	uid uint32
	hello
}

var _ softrdma.Request = (*request)(nil)

// Ends returns the addresses of both sides.
func (r *request) Ends() softrdma.Ends { return r.a.endsOf(r.nc) }

// Refuse answers with a rejection.
func (r *request) Refuse(private []byte) { r.a.p.refuse(r.nc, r.uid, private) }

// refuse sends a rejection, unless the socket is full, and closes the connection.
func (p *Provider) refuse(nc *net.UnixConn, uid uint32, private []byte) {
	_ = nc.SetDeadline(time.Now().Add(rejectTime))
	_ = sendHello(nc, &hello{kind: helloReject, private: private})
	p.foreign.hangUp(uid, nc)
}

// rejectTime bounds the time to send a rejection.
const rejectTime = time.Second

// Accept answers the request and waits for the peer's CompleteConnect.
//
// Source: [ND Connector.Accept]
func (r *request) Accept(ctx context.Context, pair softrdma.Pair, limits rdma.ReadLimits, private []byte, end func(error)) (softrdma.Conn, error) {
	limits = agree(limits, &r.hello)
	own, peer, b, err := r.answer(ctx, &hello{kind: helloAccept, limits: limits, private: private})
	return begin(err, r.nc, r.uid, pair, own, peer, b, limits, end)
}

// answer sends the acceptance with this side's segment and the peer's doorbell, and waits
// for the peer's segment.
func (r *request) answer(ctx context.Context, h *hello) (own, peer *ring.Segment, b *ring.Doorbell, err error) {
	b, others, err := ring.NewDoorbell()
	if err != nil {
		return nil, nil, nil, err
	}
	if err = acceptRights(r.nc); err == nil {
		own, err = r.a.sendSegment(ctx, r.nc, h, others...)
	}
	ring.CloseAll(others)
	if err != nil {
		if softrdma.IsHangup(err) {
			err = errors.Join(softrdma.ErrGaveUp, err)
		}
		return own, nil, b, err
	}
	peer, err = r.confirmation(ctx)
	return own, peer, b, err
}

// confirmation waits for the peer's segment.
func (r *request) confirmation(ctx context.Context) (*ring.Segment, error) {
	f := &r.a.p.foreign
	limited, cancel := context.WithTimeoutCause(ctx, r.a.p.cfg.ReadyTimeout, os.ErrDeadlineExceeded)
	defer cancel()
	var peer *ring.Segment
	var err error
	if !f.call(limited, r.uid, func() { peer, err = r.receiveReady(limited) }, func() { peer.Unmap() }) {
		return nil, softrdma.ErrNotReady
	}
	switch {
	case softrdma.IsHangup(err):
		err = softrdma.ErrGaveUp
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = softrdma.ErrNotReady
	}
	return peer, err
}

// receiveReady reads the confirmation.
func (r *request) receiveReady(ctx context.Context) (peer *ring.Segment, err error) {
	err = softrdma.Exchange(ctx, r.nc, func() error {
		var ready hello
		ready, peer, _, err = r.a.p.foreign.receiveHello(r.nc, r.uid, readyFDs)
		switch {
		case err == nil && ready.kind == helloReject:
			return softrdma.ErrGaveUp
		case err == nil && ready.kind != helloReady:
			return errHello
		}
		return err
	})
	return peer, err
}

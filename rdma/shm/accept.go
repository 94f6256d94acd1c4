//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// request is a connection whose request has arrived.
type request struct {
	a  *adapter
	nc *net.UnixConn
	hello
}

var _ softrdma.Request = (*request)(nil)

// Ends are the two addresses.
func (r *request) Ends() softrdma.Ends { return r.a.endsOf(r.nc) }

// Refuse answers with a rejection.
func (r *request) Refuse(private []byte) { refuse(r.nc, private) }

// refuse sends a rejection, if the socket takes it, and hangs up.
func refuse(nc *net.UnixConn, private []byte) {
	_ = nc.SetDeadline(time.Now().Add(rejectTime))
	_ = sendHello(nc, &hello{kind: helloReject, private: private})
	nc.Close()
}

// rejectTime bounds how long a rejection may take to leave.
const rejectTime = time.Second

// Accept answers the request and waits for the peer's CompleteConnect.
//
// Source: [ND Connector.Accept]
func (r *request) Accept(ctx context.Context, pair softrdma.Pair, limits rdma.ReadLimits, private []byte, end func(error)) (softrdma.Conn, error) {
	limits = agree(limits, &r.hello)
	own, peer, b, err := r.a.answer(ctx, r.nc, &hello{kind: helloAccept, limits: limits, private: private})
	return begin(err, r.nc, pair, own, peer, b, limits, end)
}

// answer sends the acceptance with this side's segment and the peer's
// bell, and waits for the peer's segment.
func (a *adapter) answer(ctx context.Context, nc *net.UnixConn, h *hello) (own, peer *ring.Segment, b *ring.Doorbell, err error) {
	b, others, err := ring.NewDoorbell()
	if err != nil {
		return nil, nil, nil, err
	}
	own, err = a.sendSegment(ctx, nc, h, others...)
	ring.CloseAll(others)
	if err != nil {
		if isHangup(err) {
			err = errors.Join(softrdma.ErrGaveUp, err)
		}
		return own, nil, b, err
	}
	_ = nc.SetDeadline(time.Now().Add(a.p.cfg.ReadyTimeout))
	stop := watch(ctx, nc)
	ready, peer, extra, err := receiveHello(nc)
	extra.Close() // there is none with ready
	canceled := !stop()
	switch {
	case err == nil && ready.kind == helloReady && !canceled:
		return own, peer, b, nc.SetDeadline(time.Time{})
	case canceled:
		err = context.Cause(ctx)
	case err == nil && ready.kind == helloReject, isHangup(err):
		err = softrdma.ErrGaveUp
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = softrdma.ErrNotReady
	case err == nil:
		err = errHello
	}
	return own, peer, b, err
}

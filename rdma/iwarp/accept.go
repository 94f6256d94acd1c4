package iwarp

import (
	"context"
	"net"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// request is a connection whose request has arrived.
type request struct {
	a   *adapter
	nc  net.Conn
	req frame.Startup
}

var _ softrdma.Request = (*request)(nil)

// Ends are the two addresses.
func (r *request) Ends() softrdma.Ends { return endsOf(r.nc) }

// Refuse answers with a rejection and leaves the connection.
func (r *request) Refuse(private []byte) {
	cfg := &r.a.p.cfg
	reply := newReply(cfg, &r.req, rdma.ReadLimits{}, private)
	reply.Reject = true
	limitStartup(r.nc, cfg.RequestTimeout, cfg.WriteTimeout)
	if err := writeStartup(r.nc, reply); err != nil {
		r.nc.Close()
		return
	}
	r.a.leave(r.nc)
}

// Accept answers the request. Where the two sides agreed on a first message of
// the active side, it waits for that, which is the peer's CompleteConnect; else it
// returns at once, and what is posted is held back until something arrived.
//
// Source: [ND Connector.Accept], [RFC 5044 §7.1.2 rule 4], [RFC 6581 §9.3]
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
	stop := watch(ctx, r.nc)
	err := writeStartup(r.nc, reply)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = r.nc.SetDeadline(time.Time{})
	}
	return err
}

// awaitReady waits for the peer's first frame. Without it the connection ends.
func (c *conn) awaitReady(ctx context.Context) error {
	limit := time.NewTimer(c.a.p.cfg.ReadyTimeout)
	defer limit.Stop()
	var err error
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		select {
		case <-c.ready: // and then it ended
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

package iwarp

import (
	"context"
	"net"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// phase says how far a connector is.
type phase uint8

const (
	phaseIdle       phase = iota
	phaseExpecting        // a listener is looking for a request for it
	phaseRequested        // has a request to accept or reject
	phaseConnecting       // Connect is at work
	phaseReplied          // Connect is done, CompleteConnect must follow
	phaseAccepting        // Accept is at work
	phaseConnected        // has or had a connection
	phaseDead
)

// connector makes one connection. Its lock is never held while something is
// waited for; the phase keeps operations apart.
//
// Source: [ND Connector], [ND §7]
type connector struct {
	a    *adapter
	done chan struct{} // closed at the end of the connection, or by Close

	mu      sync.Mutex
	phase   phase
	closed  bool
	bound   bool
	local   *net.TCPAddr    // to connect from, or nil
	nc      net.Conn        // from Connect or the request until there is a conn
	cancel  func()          // ends the operation at work
	work    chan struct{}   // closed at its end
	sent    *startup        // our request, or the peer's on the passive side
	reply   *startup        // the peer's
	own     rdma.ReadLimits // of Connect
	qp      *queuePair
	c       *conn
	private []byte
	limits  rdma.ReadLimits
	known   bool // private and limits are there
	ended   sync.Once
	once    sync.Once
}

var _ rdma.Connector = (*connector)(nil)

// Bind sets the address to connect from. That a port is free is known only when
// Connect tries it, but a port in use is found here as far as that can be.
func (c *connector) Bind(ctx context.Context, local rdma.Addr) error {
	const op = "bind connector"
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "iwarp: "+op, local.String())
	}
	var addr *net.TCPAddr
	if local != (rdma.Addr{}) || c.a.local.IsValid() && !c.a.local.IsUnspecified() {
		var err error
		if addr, err = c.a.tcpAddr(op, local); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return opError(op, local.String(), rdma.StatusInvalidHandle, nil)
	case c.bound || c.phase != phaseIdle:
		return opError(op, local.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	if addr != nil && addr.Port != 0 {
		probe, err := listenTCP(ctx, addr)
		if err != nil {
			return opError(op, addr.String(), netStatus(err, rdma.StatusInvalidAddress), err)
		}
		probe.Close()
	}
	c.local, c.bound = addr, true
	return nil
}

// expect reserves an unused connector for a request.
func (c *connector) expect(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return opError(op, "", rdma.StatusInvalidHandle, nil)
	case c.phase != phaseIdle:
		return opError(op, "", rdma.StatusConnectionActive, nil)
	}
	c.phase = phaseExpecting
	return nil
}

// unexpect gives it back.
func (c *connector) unexpect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == phaseExpecting {
		c.phase = phaseIdle
	}
}

// take gives it the request.
func (c *connector) take(r request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseExpecting {
		return false
	}
	c.phase, c.nc, c.sent = phaseRequested, r.nc, &r.req
	c.private, c.limits, c.known = r.req.private, peerLimits(r.req.enhanced), true
	return true
}

// Reject refuses a request, or an acceptance, for which MPA has no message: the
// private data is then not sent.
//
// Source: [RFC 5044 §7.1.2 rule 2]
func (c *connector) Reject(privateData []byte) error {
	const op = "reject"
	c.mu.Lock()
	switch {
	case c.phase != phaseRequested && c.phase != phaseReplied:
		c.mu.Unlock()
		return opError(op, "", rdma.StatusConnectionInvalid, nil)
	case len(privateData) > c.a.Info().MaxCalleeData:
		c.mu.Unlock()
		return opError(op, "private data", rdma.StatusInvalidBufferSize, nil)
	}
	nc, req, reply, qp, passive := c.nc, c.sent, c.reply, c.qp, c.phase == phaseRequested
	c.phase, c.nc, c.qp = phaseDead, nil, nil
	c.mu.Unlock()
	if passive {
		c.a.refuse(nc, req, privateData)
		return nil
	}
	c.a.giveUp(nc, req, reply)
	qp.unreserve()
	return nil
}

// ReadLimits are the peer's, clipped.
func (c *connector) ReadLimits() (rdma.ReadLimits, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return rdma.ReadLimits{}, opError("read limits", "", rdma.StatusConnectionInvalid, nil)
	}
	return c.limits, nil
}

// PrivateData is the peer's, exactly as it was sent.
func (c *connector) PrivateData() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil, opError("private data", "", rdma.StatusConnectionInvalid, nil)
	}
	return append([]byte(nil), c.private...), nil
}

// socketLocked is the TCP connection, if there is one.
func (c *connector) socketLocked() net.Conn {
	if c.c != nil {
		return c.c.nc
	}
	return c.nc
}

// LocalAddr is this side's address.
func (c *connector) LocalAddr() (rdma.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nc := c.socketLocked()
	if nc == nil {
		return rdma.Addr{}, opError("local address", "", rdma.StatusConnectionInvalid, nil)
	}
	addr := fabricAddr(nc.LocalAddr())
	return addr, nil
}

// PeerAddr is the other side's address.
func (c *connector) PeerAddr() (rdma.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nc := c.socketLocked()
	if nc == nil {
		return rdma.Addr{}, opError("peer address", "", rdma.StatusConnectionInvalid, nil)
	}
	addr := fabricAddr(nc.RemoteAddr())
	return addr, nil
}

// Done is closed when the connection ends.
func (c *connector) Done() <-chan struct{} { return c.done }

// Err tells why the connection ended; nil before that.
func (c *connector) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		if e := c.c.ending.Load(); e != nil {
			return e.err
		}
	}
	return opError("connection", "", rdma.StatusConnectionInvalid, net.ErrClosed)
}

// Disconnect ends the connection in good order and returns when the queue pair
// is flushed and the socket closed, or when ctx ends; the end then goes on.
func (c *connector) Disconnect(ctx context.Context) error {
	const op = "disconnect"
	c.mu.Lock()
	conn, ok := c.c, c.phase == phaseConnected
	c.mu.Unlock()
	if !ok || conn.ending.Load() != nil {
		return opError(op, "", rdma.StatusConnectionInvalid, nil)
	}
	conn.disconnect()
	select {
	case <-conn.finished:
		return nil
	case <-ctx.Done():
		return rdma.CanceledBy(ctx, "iwarp: "+op, conn.peer)
	}
}

// closeDone closes Done.
func (c *connector) closeDone() { c.ended.Do(func() { close(c.done) }) }

// beginLocked enters a phase in which an operation waits for the peer; ctx ends
// with the operation, or when Close asks for that.
func (c *connector) beginLocked(ctx context.Context, p phase) context.Context {
	c.phase, c.work = p, make(chan struct{})
	ctx, c.cancel = context.WithCancel(ctx)
	return ctx
}

// finish leaves it for another phase and tells whether Close was called meanwhile,
// in which case the phase is phaseDead.
func (c *connector) finish(next phase) (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	close(c.work)
	c.cancel, c.work, c.phase = nil, nil, next
	if c.closed {
		c.phase = phaseDead
	}
	return c.closed
}

// Close ends what is at work and the connection, and waits for that.
func (c *connector) Close() error {
	c.mu.Lock()
	c.closed = true
	if work := c.work; work != nil {
		c.cancel()
		c.mu.Unlock()
		<-work
		c.mu.Lock()
	}
	conn, nc, qp, req, reply, passive := c.c, c.nc, c.qp, c.sent, c.reply, c.phase == phaseRequested
	c.phase, c.nc, c.qp = phaseDead, nil, nil
	c.mu.Unlock()
	switch {
	case conn != nil:
		conn.disconnect()
		<-conn.finished
	case nc != nil && passive:
		c.a.refuse(nc, req, nil)
	case nc != nil:
		c.a.giveUp(nc, req, reply)
		qp.unreserve()
	}
	c.once.Do(func() {
		c.closeDone()
		c.a.dom.Remove(soft.Connectors, c)
	})
	return nil
}

package softrdma

import (
	"bytes"
	"context"
	"net"
	"sync"

	"lwio/rdma"
)

// phase is the progress of a connector.
type phase uint8

const (
	phaseIdle       phase = iota
	phaseExpecting        // a listener waits for a request to give to it
	phaseRequested        // has a request to accept or to reject
	phaseConnecting       // Connect is in progress
	phaseReplied          // Connect is done, CompleteConnect must follow
	phaseAccepting        // Accept or CompleteConnect is in progress
	phaseConnected        // has or had a connection
	phaseDead
)

// Connector makes one connection over a Network. Its lock is never held during a wait;
// the phase keeps operations apart.
//
// Source: [ND Connector], [ND §7]
type Connector struct {
	d    *Domain
	net  Network
	done chan struct{} // closed at the end of the connection, or by Close

	mu     sync.Mutex
	phase  phase
	closed bool
	bound  bool
	local  rdma.Addr     // the address to connect from, or zero
	cancel func()        // ends the operation in progress
	work   chan struct{} // closed at the end of the operation
	open   Handshake     // a Request or an Acceptance, until conn is set
	pair   Pair          // of an Acceptance, until conn is set
	ends   *Ends         // of open or conn
	params *PeerParams   // of the peer's last frame
	conn   Conn
	ended  sync.Once
	err    error // the reason for the end; written before done is closed
	once   sync.Once
}

var _ rdma.Connector = (*Connector)(nil)

// CreateConnector makes an unbound connector.
func (d *Domain) CreateConnector(n Network) (rdma.Connector, error) {
	c := &Connector{d: d, net: n, done: make(chan struct{})}
	if err := d.Add(Connectors, c, "create connector"); err != nil {
		return nil, err
	}
	return c, nil
}

// Bind sets the address to connect from. Only Connect finds out whether the address is
// free; Bind already finds an address in use if the Network can.
func (c *Connector) Bind(ctx context.Context, local rdma.Addr) error {
	const op = "bind connector"
	if ctx.Err() != nil {
		return c.d.Canceled(ctx, op, local.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return c.d.Error(op, local.String(), rdma.StatusInvalidHandle, nil)
	case c.bound || c.phase != phaseIdle:
		return c.d.Error(op, local.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	from, err := c.net.Source(ctx, op, local)
	if err != nil {
		return err
	}
	c.local, c.bound = from, true
	return nil
}

// expect reserves an unused connector for a request.
func (c *Connector) expect(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return c.d.Error(op, "", rdma.StatusInvalidHandle, nil)
	case c.phase != phaseIdle:
		return c.d.Error(op, "", rdma.StatusConnectionActive, nil)
	}
	c.phase = phaseExpecting
	return nil
}

// unexpect ends the reservation.
func (c *Connector) unexpect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == phaseExpecting {
		c.phase = phaseIdle
	}
}

// take gives the connector the request. It returns false if the connector was closed
// meanwhile.
func (c *Connector) take(r Request, params *PeerParams) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseExpecting {
		return false
	}
	c.openLocked(r, nil)
	c.phase, c.params = phaseRequested, params
	return true
}

// openLocked keeps a handshake and the pair that is reserved for it.
func (c *Connector) openLocked(h Handshake, pair Pair) {
	ends := h.Ends()
	c.open, c.pair, c.ends = h, pair, &ends
}

// ReadLimits returns the peer's read limits, clipped.
func (c *Connector) ReadLimits() (rdma.ReadLimits, error) {
	params, err := c.peerParams("read limits")
	return params.Limits, err
}

// PrivateData returns the peer's private data, exactly as sent.
func (c *Connector) PrivateData() ([]byte, error) {
	params, err := c.peerParams("private data")
	return bytes.Clone(params.Private), err
}

func (c *Connector) peerParams(op string) (PeerParams, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.params == nil {
		return PeerParams{}, c.d.Error(op, "", rdma.StatusConnectionInvalid, nil)
	}
	return *c.params, nil
}

// LocalAddr returns this side's address.
func (c *Connector) LocalAddr() (rdma.Addr, error) {
	ends, err := c.addrs("local address")
	return ends.Local, err
}

// PeerAddr returns the peer's address.
func (c *Connector) PeerAddr() (rdma.Addr, error) {
	ends, err := c.addrs("peer address")
	return ends.Peer, err
}

func (c *Connector) addrs(op string) (Ends, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		return Ends{}, c.d.Error(op, "", rdma.StatusConnectionInvalid, nil)
	}
	return *c.ends, nil
}

// Done is closed when the connection ends.
func (c *Connector) Done() <-chan struct{} { return c.done }

// Err returns the reason for the end of the connection, or nil before the end.
func (c *Connector) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// end closes Done with a reason. A nil err stands for an unspecified reason.
func (c *Connector) end(err error) {
	c.ended.Do(func() {
		if err == nil {
			err = c.d.Error("connection", "", rdma.StatusConnectionInvalid, net.ErrClosed)
		}
		c.err = err
		close(c.done)
	})
}

// Disconnect ends the connection in order. It returns when the queue pair is flushed and
// the socket is closed. If ctx ends first, it returns too, and the end continues in the
// background.
func (c *Connector) Disconnect(ctx context.Context) error {
	const op = "disconnect"
	c.mu.Lock()
	conn, ends := c.conn, c.ends
	connected := c.phase == phaseConnected
	c.mu.Unlock()
	if !connected || !conn.Disconnect() {
		return c.d.Error(op, "", rdma.StatusConnectionInvalid, nil)
	}
	select {
	case <-conn.Finished():
		return nil
	case <-ctx.Done():
		return c.d.Canceled(ctx, op, ends.Peer.String())
	}
}

// Close ends the operation in progress and the connection, and waits for both to end.
func (c *Connector) Close() error {
	c.mu.Lock()
	c.closed = true
	if work := c.work; work != nil {
		c.cancel()
		c.mu.Unlock()
		<-work
		c.mu.Lock()
	}
	conn := c.conn
	refuse := c.dropLocked()
	c.mu.Unlock()
	if conn != nil {
		conn.Disconnect()
		<-conn.Finished()
	}
	refuse(nil)
	c.once.Do(func() {
		c.end(nil)
		c.d.Remove(Connectors, c)
	})
	return nil
}

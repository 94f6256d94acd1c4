package softrdma

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"lwio/internal/evict"
	"lwio/internal/ratelimit"
	"lwio/rdma"
)

// acceptPause is the wait of a listener after the system refused a connection, for
// instance because no descriptor was free.
const acceptPause = 50 * time.Millisecond

// ListenSocket is the bound socket of a listener.
type ListenSocket interface {
	net.Listener
	// Local returns its address on the fabric.
	Local() rdma.Addr
	// HostOf returns the host of a connection. If there are too many connections in
	// start-up, or waiting requests, one of the busiest host is dropped first.
	HostOf(nc net.Conn) netip.Prefix
	// ReadRequest reads the request of a connection. It ends at its own time limit, or
	// when the connection is closed. If it fails, the listener closes the connection.
	ReadRequest(nc net.Conn) (Request, *PeerParams, error)
}

// Limits are the limits of a listener.
type Limits struct {
	Backlog  int // requests that wait for a connector
	Startups int // connections whose request has not arrived or is being refused; at least 1
	Logger   *slog.Logger
}

// arrival is a received request.
type arrival struct {
	Request
	nc     net.Conn
	params *PeerParams
}

// Listener takes connections and reads their requests, each in its own goroutine.
// Requests wait in a bounded queue for a connector. If the queue is full, the oldest request of the
// busiest host is refused; known hosts come last. A close may wait for the peer, so mu is not held. A
// connection that is being closed keeps a place, and without a place no connection is taken.
//
// Source: [ND Listener]
type Listener struct {
	d       *Domain
	net     Network
	limits  Limits
	noise   ratelimit.Log // for log lines that any peer can cause
	closing chan struct{}
	places  chan struct{} // one element for each connection that is in start-up or being closed

	mu       sync.Mutex
	socket   ListenSocket
	backlog  int                   // most entries of waiting
	waiting  evict.Table[*arrival] // requests that wait for a connector
	queued   chan struct{}         // one element for each of them; made by Listen
	starting evict.Table[net.Conn] // connections in start-up
	closed   bool
	wg       sync.WaitGroup
}

var _ rdma.KnownPeersListener = (*Listener)(nil)

// CreateListener makes an unbound listener.
func (d *Domain) CreateListener(n Network, limits Limits) (rdma.Listener, error) {
	l := &Listener{d: d, net: n, limits: limits, closing: make(chan struct{})}
	l.places = make(chan struct{}, 2*max(limits.Startups, 1))
	if err := d.Add(Listeners, l, "create listener"); err != nil {
		return nil, err
	}
	return l, nil
}

// Bind binds the address. Connections wait in the system until Listen.
func (l *Listener) Bind(ctx context.Context, local rdma.Addr) error {
	const op = "bind listener"
	if ctx.Err() != nil {
		return l.d.Canceled(ctx, op, local.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.d.Error(op, local.String(), rdma.StatusInvalidHandle, nil)
	case l.socket != nil:
		return l.d.Error(op, local.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	socket, err := l.net.Listen(ctx, op, local)
	if err != nil {
		return err
	}
	l.socket = socket
	return nil
}

// Listen begins to take connections. backlog bounds the waiting requests; further
// requests are refused.
func (l *Listener) Listen(backlog int) error {
	const op = "listen"
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.d.Error(op, "", rdma.StatusInvalidHandle, nil)
	case l.socket == nil, l.queued != nil:
		return l.d.Error(op, "", rdma.StatusInvalidDeviceState, nil)
	case backlog < 0:
		return l.d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	if backlog == 0 || backlog > l.limits.Backlog {
		backlog = l.limits.Backlog
	}
	l.backlog, l.queued = backlog, make(chan struct{}, backlog)
	l.wg.Add(1)
	go l.acceptAll()
	return nil
}

// SetKnownPeers prefers the connections of known hosts.
func (l *Listener) SetKnownPeers(userOf func(host netip.Addr) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting.KnownAs = func(host netip.Prefix) string { return userOf(host.Addr()) }
	l.waiting.KnownAs = l.starting.KnownAs
}

// LocalAddr returns the bound address.
func (l *Listener) LocalAddr() (rdma.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued == nil || l.closed {
		return rdma.Addr{}, l.d.Error("local address", "", rdma.StatusInvalidDeviceState, nil)
	}
	return l.socket.Local(), nil
}

// acceptAll takes connections until the listener is closed.
func (l *Listener) acceptAll() {
	defer l.wg.Done()
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closing:
			return
		}
		nc, err := l.socket.Accept()
		if err == nil {
			l.start(nc)
			continue
		}
		<-l.places
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.noise.Warn(l.limits.Logger, l.d.fabric+": accept", "addr", l.socket.Addr(), "err", err)
		select {
		case <-l.closing:
			return
		case <-time.After(acceptPause):
		}
	}
}

// start begins the start-up of a connection with a place. If there are too many, it drops the
// oldest connection of the busiest host; known hosts come last.
//
// Source: [RFC 5042 §6.4]
func (l *Listener) start(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.wg.Go(func() { nc.Close() })
		return
	}
	l.starting.Add(nc, l.socket.HostOf(nc))
	if l.starting.Len() > l.limits.Startups {
		slowest, _ := l.starting.Victim(nil)
		l.starting.Remove(slowest)
		l.wg.Go(func() { slowest.Close() })
	}
	l.wg.Go(func() { l.startup(nc) })
}

// startup reads the request of a connection and queues it. If the queue was full, startup refuses
// the request that lost its place. The refusal may wait for the peer, so mu is not held, and the
// refused connection counts as one in start-up again.
func (l *Listener) startup(nc net.Conn) {
	defer func() { <-l.places }()
	r, params, err := l.socket.ReadRequest(nc)
	evicted, err := l.admit(&arrival{r, nc, params}, err)
	if err != nil {
		l.noise.Log(l.limits.Logger, slog.LevelInfo, l.d.fabric+": start-up failed", "peer", nc.RemoteAddr(), "err", err)
		nc.Close()
	}
	if evicted == nil {
		return
	}
	evicted.Refuse(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting.Remove(evicted.nc)
}

// admit ends the start-up of a connection, and queues its request if err is nil. If the queue was
// full, admit returns the request that lost its place.
//
// Errors: err; net.ErrClosed.
func (l *Listener) admit(request *arrival, err error) (evicted *arrival, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	nc := request.nc
	host := l.socket.HostOf(nc)
	l.starting.Remove(nc)
	if err == nil && l.closed {
		err = net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	l.waiting.Add(request, host)
	if l.waiting.Len() <= l.backlog {
		l.queued <- struct{}{} // has room, as it has at most as many elements as waiting
		return nil, nil
	}
	evicted, _ = l.waiting.Victim(nil)
	l.waiting.Remove(evicted)
	l.starting.Add(evicted.nc, l.socket.HostOf(evicted.nc))
	return evicted, nil
}

// takeRequest takes a waiting request, nil if Close has taken all. Requests of known hosts come first,
// but each fourth is the oldest of all. The caller has taken an element of queued.
func (l *Listener) takeRequest() *arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, _ := l.waiting.Take()
	return r
}

// ConnectionRequest waits for a request and gives it to a connector.
func (l *Listener) ConnectionRequest(ctx context.Context, into rdma.Connector) error {
	const op = "wait for a connection request"
	c, ok := into.(*Connector)
	if !ok || c == nil || l.net.Provider() != c.net.Provider() {
		return l.d.Error(op, "", rdma.StatusInvalidParameter, errors.New("connector of another provider"))
	}
	if err := l.expect(ctx, op, c); err != nil {
		return err
	}
	select {
	case <-l.queued:
		r := l.takeRequest()
		if r == nil {
			c.unexpect()
			return l.d.Error(op, "", rdma.StatusCanceled, nil)
		}
		if c.take(r.Request, r.params) {
			return nil
		}
		r.Refuse(nil)
		return l.d.Error(op, "", rdma.StatusCanceled, nil)
	case <-l.closing:
		c.unexpect()
		return l.d.Error(op, "", rdma.StatusCanceled, nil)
	case <-ctx.Done():
		c.unexpect()
		return l.d.Canceled(ctx, op, "")
	}
}

// expect reserves the connector for a request. It holds the lock throughout: if an
// adapter closes its listener and then its connectors, ConnectionRequest returns the
// status of the listener.
func (l *Listener) expect(ctx context.Context, op string, c *Connector) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.d.Error(op, "", rdma.StatusCanceled, nil)
	case l.queued == nil:
		return l.d.Error(op, "", rdma.StatusInvalidDeviceState, nil)
	case ctx.Err() != nil:
		return l.d.Canceled(ctx, op, "")
	}
	return c.expect(op)
}

// Close stops listening, drops the connections in start-up and refuses the waiting
// requests.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closed = true
	close(l.closing)
	if l.socket != nil {
		l.socket.Close()
	}
	for nc := range l.starting.All() {
		l.wg.Go(func() { nc.Close() })
	}
	l.mu.Unlock()
	l.wg.Wait()
	var refusals sync.WaitGroup
	for r := l.takeRequest(); r != nil; r = l.takeRequest() {
		refusals.Go(func() { r.Refuse(nil) }) // a refusal may wait for its peer
	}
	refusals.Wait()
	l.d.Remove(Listeners, l)
	return nil
}

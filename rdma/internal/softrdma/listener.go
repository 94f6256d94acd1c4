package softrdma

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

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
	// start-up, a connection of the host with the most connections is dropped first.
	HostOf(nc net.Conn) string
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
	params *PeerParams
}

// Listener takes connections and reads their requests, each in its own goroutine.
// Requests wait in a bounded queue for a connector.
//
// Source: [ND Listener]
type Listener struct {
	d       *Domain
	net     Network
	limits  Limits
	noise   ratelimit.Log // for log lines that any peer can cause
	closing chan struct{}

	mu       sync.Mutex
	socket   ListenSocket
	requests chan arrival        // made by Listen
	starting map[net.Conn]uint64 // connections in start-up, with their arrival numbers
	arrivals uint64
	closed   bool
	wg       sync.WaitGroup
}

var _ rdma.Listener = (*Listener)(nil)

// CreateListener makes an unbound listener.
func (d *Domain) CreateListener(n Network, limits Limits) (rdma.Listener, error) {
	l := &Listener{d: d, net: n, limits: limits, closing: make(chan struct{})}
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
	case l.socket == nil, l.requests != nil:
		return l.d.Error(op, "", rdma.StatusInvalidDeviceState, nil)
	case backlog < 0:
		return l.d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	if backlog == 0 || backlog > l.limits.Backlog {
		backlog = l.limits.Backlog
	}
	l.requests = make(chan arrival, backlog)
	l.starting = make(map[net.Conn]uint64)
	l.wg.Add(1)
	go l.acceptAll()
	return nil
}

// LocalAddr returns the bound address.
func (l *Listener) LocalAddr() (rdma.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil || l.closed {
		return rdma.Addr{}, l.d.Error("local address", "", rdma.StatusInvalidDeviceState, nil)
	}
	return l.socket.Local(), nil
}

// acceptAll takes connections until the listener is closed.
func (l *Listener) acceptAll() {
	defer l.wg.Done()
	for {
		nc, err := l.socket.Accept()
		if err == nil {
			l.start(nc)
			continue
		}
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

// start begins the start-up of a connection. If there are too many, it drops the oldest
// connection of the host that has the most.
//
// Source: [RFC 5042 §6.4]
func (l *Listener) start(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		nc.Close()
		return
	}
	l.arrivals++
	l.starting[nc] = l.arrivals
	if len(l.starting) > l.limits.Startups {
		slowest := l.slowestLocked()
		delete(l.starting, slowest)
		slowest.Close()
	}
	l.wg.Add(1)
	go l.startup(nc)
}

// slowestLocked returns the connection that is dropped for a new one.
func (l *Listener) slowestLocked() net.Conn {
	hosts := make(map[string]int)
	for c := range l.starting {
		hosts[l.socket.HostOf(c)]++
	}
	var slowest net.Conn
	most := 0
	for c, when := range l.starting {
		n := hosts[l.socket.HostOf(c)]
		if n > most || n == most && when < l.starting[slowest] {
			slowest, most = c, n
		}
	}
	return slowest
}

// startup reads the request of a connection and queues it. If the queue is full, startup refuses
// the request. The refusal may wait for the peer, so mu is not held, and the connection still
// counts as one in start-up.
func (l *Listener) startup(nc net.Conn) {
	defer l.wg.Done()
	r, params, err := l.socket.ReadRequest(nc)
	if l.admit(nc, arrival{r, params}, err) {
		return
	}
	r.Refuse(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.starting, nc)
}

// admit ends the start-up of a connection: it queues the request, or closes the connection if err
// is not nil. admit returns false if the queue is full.
func (l *Listener) admit(nc net.Conn, request arrival, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.closed {
		delete(l.starting, nc)
		l.noise.Log(l.limits.Logger, slog.LevelInfo, l.d.fabric+": start-up failed", "peer", nc.RemoteAddr(), "err", err)
		nc.Close()
		return true
	}
	select {
	case l.requests <- request:
		delete(l.starting, nc)
		return true
	default:
		return false
	}
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
	case r := <-l.requests:
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
	case l.requests == nil:
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
	for nc := range l.starting {
		nc.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
	var refusals sync.WaitGroup
	for l.requests != nil {
		select {
		case r := <-l.requests:
			refusals.Go(func() { r.Refuse(nil) }) // a refusal may wait for its peer
			continue
		default:
		}
		break
	}
	refusals.Wait()
	l.d.Remove(Listeners, l)
	return nil
}

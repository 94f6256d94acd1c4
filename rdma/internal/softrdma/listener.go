package softrdma

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"lwio/rdma"
)

// acceptPause is how long a listener waits after the system refused to give it
// a connection, for want of descriptors for instance.
const acceptPause = 50 * time.Millisecond

// Door is the bound socket of a listener.
type Door interface {
	net.Listener
	// Local is its address on the fabric.
	Local() rdma.Addr
	// HostOf tells whose a connection is. Of connections in start-up the host that
	// has most gives way.
	HostOf(nc net.Conn) string
	// Greet reads the request of a connection, within a time of its own, or until
	// that is closed. If it fails the listener closes the connection.
	Greet(nc net.Conn) (Request, *Heard, error)
}

// Limits are those of a listener.
type Limits struct {
	Backlog  int // requests that wait to be taken
	Startups int // connections whose request has not arrived; at least 1
	Logger   *slog.Logger
}

// arrival is a request that has arrived.
type arrival struct {
	Request
	heard *Heard
}

// Listener takes connections and reads their requests, one goroutine for each;
// requests wait in a bounded queue to be taken.
//
// Source: [ND Listener]
type Listener struct {
	d       *Domain
	net     Network
	limits  Limits
	closing chan struct{}

	mu       sync.Mutex
	door     Door
	requests chan arrival        // made by Listen
	starting map[net.Conn]uint64 // connections in start-up, and when they came
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

// Bind takes the address; connections wait in the system until Listen.
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
	case l.door != nil:
		return l.d.Error(op, local.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	door, err := l.net.Listen(ctx, op, local)
	if err != nil {
		return err
	}
	l.door = door
	return nil
}

// Listen begins to take connections. backlog is how many requests may wait; more
// are refused.
func (l *Listener) Listen(backlog int) error {
	const op = "listen"
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.d.Error(op, "", rdma.StatusInvalidHandle, nil)
	case l.door == nil, l.requests != nil:
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

// LocalAddr is the address that was bound.
func (l *Listener) LocalAddr() (rdma.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil || l.closed {
		return rdma.Addr{}, l.d.Error("local address", "", rdma.StatusInvalidDeviceState, nil)
	}
	return l.door.Local(), nil
}

// acceptAll takes connections until the listener is closed.
func (l *Listener) acceptAll() {
	defer l.wg.Done()
	for {
		nc, err := l.door.Accept()
		if err == nil {
			l.start(nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.limits.Logger.Warn(l.d.fabric+": accept", "addr", l.door.Addr(), "err", err)
		select {
		case <-l.closing:
			return
		case <-time.After(acceptPause):
		}
	}
}

// start begins the start-up of a connection. If too many are at it, one of the
// host that has most of them is dropped: the oldest, which is the slowest.
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

// slowestLocked is the connection that gives way to a new one.
func (l *Listener) slowestLocked() net.Conn {
	hosts := make(map[string]int)
	for c := range l.starting {
		hosts[l.door.HostOf(c)]++
	}
	var slowest net.Conn
	most := 0
	for c, when := range l.starting {
		n := hosts[l.door.HostOf(c)]
		if n > most || n == most && when < l.starting[slowest] {
			slowest, most = c, n
		}
	}
	return slowest
}

// startup reads the request of a connection and queues it.
func (l *Listener) startup(nc net.Conn) {
	defer l.wg.Done()
	r, heard, err := l.door.Greet(nc)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.starting, nc)
	if err != nil || l.closed {
		l.limits.Logger.Info(l.d.fabric+": start-up failed", "peer", nc.RemoteAddr(), "err", err)
		nc.Close()
		return
	}
	select {
	case l.requests <- arrival{r, heard}:
	default:
		r.Refuse(nil)
	}
}

// ConnectionRequest waits for a request and hands it to a connector.
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
		if c.take(r.Request, r.heard) {
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

// expect reserves the connector for a request. The lock is held all along: where
// an adapter closes its listener, and then its connectors, the listener counts.
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

// Close stops listening, drops connections in start-up and refuses the requests
// that nobody took.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closed = true
	close(l.closing)
	if l.door != nil {
		l.door.Close()
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
			refusals.Go(func() { r.Refuse(nil) }) // none waits for another
			continue
		default:
		}
		break
	}
	refusals.Wait()
	l.d.Remove(Listeners, l)
	return nil
}

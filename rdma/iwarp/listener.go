package iwarp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// acceptPause is how long a listener waits after the system refused to give it
// a connection, for want of descriptors for instance.
const acceptPause = 50 * time.Millisecond

// listener takes TCP connections and reads their requests, one goroutine for
// each; requests wait in a bounded queue to be taken.
//
// Source: [ND Listener], [RFC 5044 §7.1]
type listener struct {
	a       *adapter
	closing chan struct{}

	mu       sync.Mutex
	bound    net.Listener
	requests chan *request       // made by Listen
	starting map[net.Conn]uint64 // connections in start-up, and when they came
	arrivals uint64
	closed   bool
	wg       sync.WaitGroup
}

var _ rdma.Listener = (*listener)(nil)

// Bind takes the port; connections wait in the system until Listen.
func (l *listener) Bind(ctx context.Context, local rdma.Addr) error {
	const op = "bind listener"
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "iwarp: "+op, local.String())
	}
	addr, err := l.a.tcpAddr(op, local)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return opError(op, addr.String(), rdma.StatusInvalidHandle, nil)
	case l.bound != nil:
		return opError(op, addr.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	nl, err := l.a.p.cfg.Listen(ctx, addr)
	if err != nil {
		return opError(op, addr.String(), netStatus(err, rdma.StatusInvalidAddress), err)
	}
	l.bound = nl
	return nil
}

// Listen begins to take connections. backlog is how many requests may wait; more
// are refused.
func (l *listener) Listen(backlog int) error {
	const op = "listen"
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return opError(op, "", rdma.StatusInvalidHandle, nil)
	case l.bound == nil, l.requests != nil:
		return opError(op, "", rdma.StatusInvalidDeviceState, nil)
	case backlog < 0:
		return opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	most := l.a.p.cfg.MaxBacklog
	if backlog == 0 || backlog > most {
		backlog = most
	}
	l.requests = make(chan *request, backlog)
	l.starting = make(map[net.Conn]uint64)
	l.wg.Add(1)
	go l.acceptAll()
	return nil
}

// LocalAddr is the address that was bound.
func (l *listener) LocalAddr() (rdma.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil || l.closed {
		return rdma.Addr{}, opError("local address", "", rdma.StatusInvalidDeviceState, nil)
	}
	addr := fabricAddr(l.bound.Addr())
	return addr, nil
}

// acceptAll takes connections until the listener is closed.
func (l *listener) acceptAll() {
	defer l.wg.Done()
	for {
		nc, err := l.bound.Accept()
		if err == nil {
			l.start(nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.a.p.cfg.Logger.Warn("iwarp: accept", "addr", l.bound.Addr(), "err", err)
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
func (l *listener) start(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		nc.Close()
		return
	}
	l.arrivals++
	l.starting[nc] = l.arrivals
	if len(l.starting) > l.a.p.cfg.MaxStartups {
		slowest := l.slowestLocked()
		delete(l.starting, slowest)
		slowest.Close()
	}
	l.wg.Add(1)
	go l.startup(nc)
}

// slowestLocked is the connection that gives way to a new one.
func (l *listener) slowestLocked() net.Conn {
	hosts := make(map[string]int)
	for c := range l.starting {
		hosts[hostOf(c)]++
	}
	var slowest net.Conn
	most := 0
	for c, when := range l.starting {
		n := hosts[hostOf(c)]
		if n > most || n == most && when < l.starting[slowest] {
			slowest, most = c, n
		}
	}
	return slowest
}

// hostOf is the address that a connection comes from, without the port.
func hostOf(nc net.Conn) string {
	addr := nc.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// startup reads the request of a connection and queues it.
//
// Source: [RFC 5044 §7.1.2]
func (l *listener) startup(nc net.Conn) {
	defer l.wg.Done()
	cfg := &l.a.p.cfg
	limitStartup(nc, cfg.RequestTimeout, cfg.WriteTimeout)
	req, err := readStartup(nc, false)
	if err == nil && req.revision == 0 {
		err = errStartupRevision
	}
	l.mu.Lock()
	delete(l.starting, nc)
	closed := l.closed
	l.mu.Unlock()
	switch {
	case err != nil || closed:
		cfg.Logger.Info("iwarp: start-up failed", "peer", nc.RemoteAddr(), "err", err)
		nc.Close()
		return
	}
	r := &request{l.a, nc, req}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		select {
		case l.requests <- r:
			return
		default:
		}
	}
	r.Refuse(nil)
}

// ConnectionRequest waits for a request and hands it to a connector.
func (l *listener) ConnectionRequest(ctx context.Context, into rdma.Connector) error {
	const op = "wait for a connection request"
	c, ok := into.(*soft.Connector)
	if !ok || !c.Of(l.a) {
		return opError(op, "", rdma.StatusInvalidParameter, errors.New("connector of another adapter"))
	}
	l.mu.Lock()
	requests, closed := l.requests, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return opError(op, "", rdma.StatusCanceled, nil)
	case requests == nil:
		return opError(op, "", rdma.StatusInvalidDeviceState, nil)
	case ctx.Err() != nil:
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	if err := c.Expect(op); err != nil {
		return err
	}
	select {
	case r := <-requests:
		if c.Take(r, r.req.heard()) {
			return nil
		}
		r.Refuse(nil)
		return opError(op, "", rdma.StatusCanceled, nil)
	case <-l.closing:
		c.Unexpect()
		return opError(op, "", rdma.StatusCanceled, nil)
	case <-ctx.Done():
		c.Unexpect()
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
}

// Close stops listening, drops connections in start-up and refuses the requests
// that nobody took.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closed = true
	close(l.closing)
	if l.bound != nil {
		l.bound.Close()
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
	l.a.dom.Remove(soft.Listeners, l)
	return nil
}

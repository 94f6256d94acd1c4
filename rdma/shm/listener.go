//go:build linux

package shm

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

// listener takes connections and reads their requests, one goroutine for each;
// requests wait in a bounded queue to be taken.
//
// Source: [ND Listener]
type listener struct {
	a       *adapter
	closing chan struct{}

	mu       sync.Mutex
	bound    *net.UnixListener
	name     string
	requests chan *request            // made by Listen
	starting map[*net.UnixConn]uint64 // connections in start-up, and when they came
	arrivals uint64
	closed   bool
	wg       sync.WaitGroup
}

var _ rdma.Listener = (*listener)(nil)

// Bind takes the name, or picks one if there is none; connections wait in the
// system until Listen.
func (l *listener) Bind(ctx context.Context, local rdma.Addr) error {
	const op = "bind listener"
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "shm: "+op, local.String())
	}
	if !l.a.ours(local) {
		return opError(op, local.String(), rdma.StatusInvalidAddress, nil)
	}
	addr := l.a.addr(local.Name)
	if addr.Name == "" {
		addr.Name = randomName()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return opError(op, addr.String(), rdma.StatusInvalidHandle, nil)
	case l.bound != nil:
		return opError(op, addr.String(), rdma.StatusAddressAlreadyAssociated, nil)
	}
	nl, err := net.ListenUnix("unixpacket", sockAddr(addr.Name))
	if err != nil {
		return opError(op, addr.String(), statusOf(err), err)
	}
	l.bound, l.name = nl, addr.Name
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
	l.starting = make(map[*net.UnixConn]uint64)
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
	return l.a.addr(l.name), nil
}

// acceptAll takes connections until the listener is closed.
func (l *listener) acceptAll() {
	defer l.wg.Done()
	for {
		nc, err := l.bound.AcceptUnix()
		if err == nil {
			l.start(nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.a.p.cfg.Logger.Warn("shm: accept", "name", l.name, "err", err)
		select {
		case <-l.closing:
			return
		case <-time.After(acceptPause):
		}
	}
}

// start begins the start-up of a connection. If too many are at it, the oldest,
// which is the slowest, is dropped.
func (l *listener) start(nc *net.UnixConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		nc.Close()
		return
	}
	if len(l.starting) >= l.a.p.cfg.MaxStartups {
		var oldest *net.UnixConn
		for c, when := range l.starting {
			if oldest == nil || when < l.starting[oldest] {
				oldest = c
			}
		}
		delete(l.starting, oldest)
		oldest.Close()
	}
	l.arrivals++
	l.starting[nc] = l.arrivals
	l.wg.Add(1)
	go l.startup(nc)
}

// startup checks who is there, reads the request, and queues it.
func (l *listener) startup(nc *net.UnixConn) {
	defer l.wg.Done()
	cfg := &l.a.p.cfg
	_ = nc.SetDeadline(time.Now().Add(cfg.RequestTimeout))
	req, err := readRequest(cfg, nc)
	l.mu.Lock()
	delete(l.starting, nc)
	closed := l.closed
	l.mu.Unlock()
	if err != nil || closed {
		cfg.Logger.Info("shm: start-up failed", "peer", nameOf(nc.RemoteAddr()), "err", err)
		if errors.Is(err, errUser) {
			forbid(nc)
		}
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

// forbid tells a peer why it is not served. Its request is taken out first, as to
// close a socket with something in it takes away from the peer what was sent to it.
func forbid(nc *net.UnixConn) {
	_ = nc.SetDeadline(time.Now().Add(rejectTime))
	_, _ = nc.Read(make([]byte, 1))
	_ = sendHello(nc, &hello{kind: helloForbidden})
}

// readRequest reads the request of a peer that the policy allows.
func readRequest(cfg *Config, nc *net.UnixConn) (hello, error) {
	if err := cfg.checkUser(nc); err != nil {
		return hello{}, err
	}
	req, peer, b, err := receiveHello(nc)
	peer.unmap()
	b.close()
	if err == nil && req.kind != helloRequest {
		err = errHello
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return req, err
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
		return rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	if err := c.Expect(op); err != nil {
		return err
	}
	select {
	case r := <-requests:
		if c.Take(r, r.heard()) {
			return nil
		}
		r.Refuse(nil)
		return opError(op, "", rdma.StatusCanceled, nil)
	case <-l.closing:
		c.Unexpect()
		return opError(op, "", rdma.StatusCanceled, nil)
	case <-ctx.Done():
		c.Unexpect()
		return rdma.CanceledBy(ctx, "shm: "+op, "")
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
	for l.requests != nil {
		select {
		case r := <-l.requests:
			r.Refuse(nil)
			continue
		default:
		}
		break
	}
	l.a.dom.Remove(soft.Listeners, l)
	return nil
}

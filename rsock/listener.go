package rsock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

const (
	// rejecting is how many requests may be rejected at a time, in addition to the
	// requests that have a place in the backlog.
	rejecting = 64
	// deciding is how many TCP connections may be between the system and AcceptConn if
	// there is an Admit function.
	deciding = 64
)

// Listener accepts connections by TCP and by RDMA. It is a net.Listener. Safe for concurrent
// use.
//
// Source: [WSD §3.2]
type Listener struct {
	router *router
	tcp    *net.TCPListener
	addr   netip.AddrPort // of tcp
	rdma   rdmaListeners
	admit  func(*Request) bool

	arrived  chan *net.TCPConn // TCP connections that ask for no proof; acceptTCP closes it
	accepted chan arrival      // TCP connections for AcceptConn
	ready    chan *Conn        // negotiated RDMA connections
	backlog  backlog           // RDMA connections from their request to AcceptConn
	proofs   proofs
	handling chan struct{} // one element for each request that is being handled
	deciding chan struct{} // one element for each TCP connection that Admit is called for
	ctx      context.Context
	cancel   context.CancelFunc
	closing  <-chan struct{} // ctx.Done()
	once     sync.Once
	wg       sync.WaitGroup
}

// arrival is a result of Accept.
type arrival struct {
	c   *Conn
	err error
}

// newListener makes a listener from a TCP listener, and owns the TCP listener. The listener
// accepts nothing before start.
func newListener(lc *ListenConfig, r *router, tcp *net.TCPListener, network string) *Listener {
	l := &Listener{
		router:   r,
		tcp:      tcp,
		addr:     tcp.Addr().(*net.TCPAddr).AddrPort(),
		admit:    lc.Admit,
		accepted: make(chan arrival),
		deciding: make(chan struct{}, deciding),
	}
	most := lc.Backlog
	if most <= 0 {
		most = defaultBacklog
	}
	l.backlog.init(most)
	l.proofs.byPeer = make(map[netip.AddrPort]*announced)
	l.arrived = make(chan *net.TCPConn, most)
	l.rdma = rdmaListeners{l: l, backlog: most, dual: network == "tcp" && l.addr.Addr() == netip.IPv6Unspecified()}
	l.ready = make(chan *Conn, most)
	l.handling = make(chan struct{}, most+rejecting)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.closing = l.ctx.Done()
	return l
}

// start begins to accept TCP connections, and to follow the addresses of the providers.
func (l *Listener) start() {
	l.wg.Go(l.acceptTCP)
	l.wg.Go(l.serveTCP)
	if len(l.router.cfg.Providers) > 0 {
		l.wg.Go(l.rdma.follow)
	}
}

// Accept waits for a connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn waits for a connection, by TCP or by RDMA.
//
// Errors: net.ErrClosed (wrapped) after Close; the errors of net.TCPListener.Accept. After
// some of these errors AcceptConn can be called again.
func (l *Listener) AcceptConn() (*Conn, error) {
	if l.ctx.Err() == nil {
		select {
		case a := <-l.accepted:
			return a.c, a.err
		case c := <-l.ready:
			l.backlog.accepted()
			return c, nil
		case <-l.closing:
		}
	}
	return nil, opError("accept", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
}

// Addr returns the TCP address, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// RDMAAddrs lists the addresses of the RDMA listeners, in forms such as
// "shm rsock/127.0.0.1:80".
func (l *Listener) RDMAAddrs() []net.Addr { return l.rdma.addrs() }

// Close stops listening, resets connections that were not accepted, and waits for the
// goroutines of the listener, including a running Admit function. Accepted connections go
// on. A second Close fails with net.ErrClosed (wrapped).
func (l *Listener) Close() error {
	err := opError("close", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
	l.once.Do(func() { err = l.close() })
	return err
}

func (l *Listener) close() error {
	l.cancel()
	err := errors.Join(l.tcp.Close(), l.rdma.close())
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.SetLinger(0)
			c.Close()
		default:
			return err
		}
	}
}

// Drain waits until no accepted connection that was closed is still delivering written data.
// Open connections do not count. It may be called before and after Close.
//
// Errors: the error of ctx; the deliveries go on.
func (l *Listener) Drain(ctx context.Context) error {
	if err := l.router.draining.wait(ctx); err != nil {
		return opError("close", l.Addr().Network(), nil, l.Addr(), err)
	}
	return nil
}

// acceptTCP accepts TCP connections until the listener is closed. It answers the connections
// that ask for a proof. It does not wait for AcceptConn before Backlog connections wait.
func (l *Listener) acceptTCP() {
	defer close(l.arrived)
	for l.ctx.Err() == nil {
		tcp, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.deliver(arrival{err: err})
			continue
		}
		if a := l.proofs.take(tcp.RemoteAddr().(*net.TCPAddr).AddrPort()); a != nil {
			l.wg.Go(func() { l.prove(a, tcp) })
			continue
		}
		select {
		case l.arrived <- tcp:
		case <-l.closing:
			reset(tcp)
		}
	}
}

// prove answers an announced TCP connection. A connection that asks for no proof belongs to
// another program of the dialer's host, and waits for AcceptConn like all others. If too many
// connections wait for Admit, it is reset.
func (l *Listener) prove(a *announced, tcp *net.TCPConn) {
	if a.prove(tcp) {
		return
	}
	select {
	case l.deciding <- struct{}{}:
		l.decide(tcp)
	default:
		reset(tcp)
	}
}

// serveTCP gives TCP connections to AcceptConn.
func (l *Listener) serveTCP() {
	for tcp := range l.arrived {
		if l.admit == nil || l.router.cfg.RequireRDMA || l.ctx.Err() != nil {
			l.settle(tcp)
			continue
		}
		// Admit may block, so it has a goroutine of its own.
		select {
		case l.deciding <- struct{}{}:
			l.wg.Go(func() { l.decide(tcp) })
		case <-l.closing:
			reset(tcp)
		}
	}
}

// decide is settle for a connection that counts in deciding.
func (l *Listener) decide(tcp *net.TCPConn) {
	defer func() { <-l.deciding }()
	l.settle(tcp)
}

// settle gives a TCP connection to AcceptConn, or resets it if RDMA is required, Admit
// returns false or the listener is closed.
func (l *Listener) settle(tcp *net.TCPConn) {
	switch {
	case l.ctx.Err() != nil:
		reset(tcp)
	case l.router.cfg.RequireRDMA:
		l.router.noise.Log(l.router.cfg.Logger, slog.LevelInfo, "rsock: TCP connection reset, as RDMA is required", "peer", tcp.RemoteAddr())
		reset(tcp)
	case l.admit == nil || l.admit(&Request{
		Transport:  TransportTCP,
		LocalAddr:  tcp.LocalAddr().(*net.TCPAddr),
		RemoteAddr: tcp.RemoteAddr().(*net.TCPAddr),
	}):
		l.deliver(arrival{c: newTCPConn(tcp, nil)})
	default:
		reset(tcp)
	}
}

// deliver waits until AcceptConn takes a TCP connection or an error.
func (l *Listener) deliver(a arrival) {
	select {
	case l.accepted <- a:
	case <-l.closing:
		if a.c != nil {
			_ = a.c.SetLinger(0)
			a.c.Close()
		}
	}
}

// reset closes a connection with a TCP reset.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

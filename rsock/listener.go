package rsock

import (
	"errors"
	"net"
	"sync"
)

// Listener takes connections by TCP and by RDMA: it is a net.Listener. Safe for concurrent
// use.
//
// Source: [WSD §3.2]
type Listener struct {
	sw        *board
	tcp       *net.TCPListener
	condition func(*Request) bool

	accepted chan arrival  // connections by TCP; unbuffered, the system keeps the others
	closing  chan struct{} // closed by Close
	once     sync.Once
	wg       sync.WaitGroup
}

// arrival is what Accept returns.
type arrival struct {
	c   *Conn
	err error
}

// newListener makes a listener on top of one of TCP, which is its own from now on.
func newListener(lc *ListenConfig, sw *board, tcp *net.TCPListener) *Listener {
	l := &Listener{
		sw:        sw,
		tcp:       tcp,
		condition: lc.Condition,
		accepted:  make(chan arrival),
		closing:   make(chan struct{}),
	}
	l.wg.Add(1)
	go l.acceptTCP()
	return l
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
// Errors: net.ErrClosed (wrapped) after Close; those of net.TCPListener.Accept, after some
// of which it may be called again.
func (l *Listener) AcceptConn() (*Conn, error) {
	select {
	case <-l.closing:
		return nil, opError("accept", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
	default:
	}
	select {
	case a := <-l.accepted:
		return a.c, a.err
	case <-l.closing:
		return nil, opError("accept", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
	}
}

// Addr is the TCP address, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close stops listening, resets connections that nobody accepted, and waits for the
// listener's goroutines. Connections that were accepted go on. A second Close fails with
// net.ErrClosed (wrapped).
func (l *Listener) Close() error {
	err := opError("close", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
	l.once.Do(func() {
		close(l.closing)
		err = l.tcp.Close()
	})
	l.wg.Wait()
	return err
}

// acceptTCP takes connections by TCP until the listener is closed.
func (l *Listener) acceptTCP() {
	defer l.wg.Done()
	for {
		tcp, err := l.tcp.AcceptTCP()
		var a arrival
		switch {
		case err == nil && !l.wants(tcp):
			reset(tcp)
			continue
		case err == nil:
			a.c = newTCPConn(tcp, nil)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			a.err = err
		}
		select {
		case l.accepted <- a:
		case <-l.closing:
			if err == nil {
				reset(tcp)
			}
			return
		}
	}
}

// wants tells whether a connection by TCP is to be had.
func (l *Listener) wants(c *net.TCPConn) bool {
	if l.sw.cfg.RequireRDMA {
		l.sw.cfg.Logger.Info("rsock: connection by TCP reset, as RDMA is required", "peer", c.RemoteAddr())
		return false
	}
	return l.condition == nil || l.condition(&Request{
		Transport: TransportTCP,
		Local:     c.LocalAddr().(*net.TCPAddr),
		Remote:    c.RemoteAddr().(*net.TCPAddr),
	})
}

// reset breaks a connection off.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

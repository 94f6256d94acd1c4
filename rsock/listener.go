package rsock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// rejecting is how many requests may be rejected at a time, beside those that have a
	// place in the backlog.
	rejecting = 64
	// deciding is how many connections by TCP may be between the system and AcceptConn
	// where a condition function decides about them.
	deciding = 64
)

// Listener takes connections by TCP and by RDMA: it is a net.Listener. Safe for concurrent
// use.
//
// Source: [WSD §3.2]
type Listener struct {
	sw        *board
	tcp       *net.TCPListener
	addr      netip.AddrPort // of tcp
	both      bool           // tcp takes both families
	backlog   int
	condition func(*Request) bool

	accepted chan arrival  // connections by TCP; unbuffered, the system keeps the others
	ready    chan *Conn    // connections by RDMA, each with a slot
	slots    chan struct{} // one for each from its request to AcceptConn
	working  chan struct{} // one for each request that is dealt with
	deciding chan struct{} // one for each connection by TCP that the condition function is asked about
	ctx      context.Context
	cancel   context.CancelFunc
	closing  <-chan struct{} // ctx.Done()
	once     sync.Once
	wg       sync.WaitGroup
	said     map[int]string // why providers have no addresses, as logged; of openAll

	mu         sync.Mutex // guards what follows
	companions []*companion
}

// arrival is what Accept returns.
type arrival struct {
	c   *Conn
	err error
}

// newListener makes a listener on top of one of TCP, which is its own from now on. It takes
// nothing before start.
func newListener(lc *ListenConfig, sw *board, tcp *net.TCPListener, network string) *Listener {
	l := &Listener{
		sw:        sw,
		tcp:       tcp,
		addr:      tcp.Addr().(*net.TCPAddr).AddrPort(),
		backlog:   lc.Backlog,
		condition: lc.Condition,
		accepted:  make(chan arrival),
	}
	if l.backlog <= 0 {
		l.backlog = DefaultBacklog
	}
	l.both = network == "tcp" && l.addr.Addr() == netip.IPv6Unspecified()
	l.ready = make(chan *Conn, l.backlog)
	l.slots = make(chan struct{}, l.backlog)
	l.working = make(chan struct{}, l.backlog+rejecting)
	l.deciding = make(chan struct{}, deciding)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.closing = l.ctx.Done()
	return l
}

// start begins to take connections by TCP, and to look after the companions.
func (l *Listener) start() {
	l.wg.Go(l.acceptTCP)
	if len(l.sw.cfg.Providers) > 0 {
		l.wg.Go(l.follow)
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
// Errors: net.ErrClosed (wrapped) after Close; those of net.TCPListener.Accept, after some
// of which it may be called again.
func (l *Listener) AcceptConn() (*Conn, error) {
	if l.ctx.Err() == nil {
		select {
		case a := <-l.accepted:
			return a.c, a.err
		case c := <-l.ready:
			<-l.slots
			return c, nil
		case <-l.closing:
		}
	}
	return nil, opError("accept", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
}

// Addr is the TCP address, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Companions lists the addresses of RDMA that the listener listens at beside TCP, as
// "shm rsock/127.0.0.1:80".
func (l *Listener) Companions() []net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]net.Addr, len(l.companions))
	for i, c := range l.companions {
		list[i] = c.place.at
	}
	return list
}

// Close stops listening, resets connections that nobody accepted, and waits for the
// listener's goroutines, and so for a condition function that is running. Connections that
// were accepted go on. A second Close fails with net.ErrClosed (wrapped).
func (l *Listener) Close() error {
	err := opError("close", l.Addr().Network(), nil, l.Addr(), net.ErrClosed)
	l.once.Do(func() { err = l.close() })
	return err
}

// Drain waits until no connection that was accepted and closed is still delivering what was
// written. Connections that are open do not count. It may be called before and after Close.
//
// Errors: that of ctx; the rest goes on.
func (l *Listener) Drain(ctx context.Context) error {
	if err := l.sw.partings.wait(ctx); err != nil {
		return opError("close", l.Addr().Network(), nil, l.Addr(), err)
	}
	return nil
}

func (l *Listener) close() error {
	l.cancel()
	l.mu.Lock() // no companion comes or goes after this
	companions := l.companions
	l.mu.Unlock()
	errs := []error{l.tcp.Close()}
	for _, c := range companions {
		errs = append(errs, c.listener.Close())
	}
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.SetLinger(0)
			c.Close()
		default:
			return errors.Join(errs...)
		}
	}
}

// openAll opens companions at all places where there is none yet, and closes those whose
// place is gone. It fails with what went wrong, each time for one companion only. One
// goroutine calls it at a time; nobody waits for a provider with mu held.
func (l *Listener) openAll(ctx context.Context) (failed []error) {
	table, err := l.sw.newest(ctx)
	if err != nil {
		return []error{err}
	}
	l.complain(table)
	wanted := table.doors(&l.sw.cfg, l.addr, l.both)
	kept, gone := l.sort(wanted)
	for _, c := range gone {
		if err := c.listener.Close(); err != nil {
			failed = append(failed, err)
		}
		l.sw.cfg.Logger.Info("rsock: the address of a companion is gone", "provider", c.lane.Name(), "addr", &c.place)
	}
	for _, p := range wanted {
		if slices.ContainsFunc(kept, func(c *companion) bool { return c.place.same(p) }) {
			continue
		}
		if err := l.openCompanion(ctx, p); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// complain logs which providers have no addresses, and why, if that is not known yet. Only
// openAll calls it.
func (l *Listener) complain(table *subnets) {
	said := l.said
	l.said = make(map[int]string)
	for _, p := range table.paths {
		if p.err == nil {
			continue
		}
		l.said[p.index] = p.err.Error()
		if said[p.index] != l.said[p.index] {
			l.sw.cfg.Logger.Warn("rsock: no companion", "provider", p.provider.Name(), "err", p.err)
		}
	}
}

// sort keeps the companions whose places are wanted, and gives up the others, which the
// caller closes.
func (l *Listener) sort(wanted []place) (kept, gone []*companion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return l.companions, nil
	}
	for _, c := range l.companions {
		if c.over = !slices.ContainsFunc(wanted, c.place.same); c.over {
			gone = append(gone, c)
		} else {
			kept = append(kept, c)
		}
	}
	l.companions = slices.Clone(kept)
	return kept, gone
}

// settling is how long a listener waits after a change of the addresses before it looks at
// them, as changes come in bursts.
const settling = 50 * time.Millisecond

// follow opens companions on addresses as they come, and those that could not listen before.
func (l *Listener) follow() {
	tick := time.NewTicker(l.sw.cfg.Refresh)
	defer tick.Stop()
	changed, stop, err := l.sw.cfg.watch()
	if err != nil {
		l.sw.cfg.Logger.Warn("rsock: changes of addresses are noticed late", "after", l.sw.cfg.Refresh, "err", err)
	} else {
		defer stop()
		l.sw.outdate() // something may have changed before it was watched
		l.renew()
	}
	for {
		select {
		case <-tick.C:
		case <-changed:
			select {
			case <-time.After(settling):
			case <-l.closing:
				return
			}
			l.sw.outdate()
		case <-l.closing:
			return
		}
		l.renew()
	}
}

// renew is openAll for a listener that listens already.
func (l *Listener) renew() {
	for _, err := range l.openAll(l.ctx) {
		l.sw.cfg.Logger.Debug("rsock: no companion", "addr", l.Addr(), "err", err)
	}
}

// acceptTCP takes connections by TCP until the listener is closed.
func (l *Listener) acceptTCP() {
	for l.ctx.Err() == nil {
		tcp, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.arrive(arrival{err: err})
		case l.sw.cfg.RequireRDMA:
			l.sw.cfg.Logger.Info("rsock: connection by TCP reset, as RDMA is required", "peer", tcp.RemoteAddr())
			reset(tcp)
		case l.condition == nil:
			l.arrive(arrival{c: newTCPConn(tcp, nil)})
		default:
			l.decide(tcp)
		}
	}
}

// arrive waits for an AcceptConn to take a connection by TCP, or an error.
func (l *Listener) arrive(a arrival) {
	select {
	case l.accepted <- a:
	case <-l.closing:
		if a.c != nil {
			_ = a.c.SetLinger(0)
			a.c.Close()
		}
	}
}

// decide has the condition function decide about a connection by TCP, in a goroutine of its
// own, as it may take its time. It waits for a place among those that are decided about.
func (l *Listener) decide(c *net.TCPConn) {
	select {
	case l.deciding <- struct{}{}:
	case <-l.closing:
		reset(c)
		return
	}
	l.wg.Go(func() {
		defer func() { <-l.deciding }()
		if l.condition(&Request{
			Transport: TransportTCP,
			Local:     c.LocalAddr().(*net.TCPAddr),
			Remote:    c.RemoteAddr().(*net.TCPAddr),
		}) {
			l.arrive(arrival{c: newTCPConn(c, nil)})
		} else {
			reset(c)
		}
	})
}

// reset breaks a connection off.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

package rsock

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is the time limit of one test, stall the time limit of one step of a side.
const (
	patience = 5 * time.Minute
	stall    = time.Minute
)

// link connects the two programs of a test, and counts the connections.
type link struct {
	t        *testing.T
	provider string
	dialer   rsock.Dialer
	config   *rsock.Config
	made     atomic.Int64
}

// onAll runs a test on every provider.
func onAll(t *testing.T, test func(t *testing.T, l *link)) {
	for _, p := range []rdma.Provider{shm.New(nil), iwarp.New(nil)} {
		t.Run(p.Name(), func(t *testing.T) {
			cfg := &rsock.Config{Providers: []rdma.Provider{p}, RequireRDMA: true, HandshakeTimeout: stall, Linger: stall}
			l := &link{t: t, provider: p.Name(), config: cfg, dialer: rsock.Dialer{Config: cfg}}
			test(t, l)
			if l.made.Load() == 0 {
				t.Error("no connection went by RDMA")
			}
		})
	}
}

// ctx returns the context of a test.
func (l *link) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l.t.Cleanup(cancel)
	return ctx
}

// listen listens on a free port.
func (l *link) listen() *rsock.Listener {
	l.t.Helper()
	nl, err := rsock.Listen("tcp", "127.0.0.1:0", l.config)
	if err != nil {
		l.t.Fatal(err)
	}
	return nl
}

// dial connects, and checks that the connection uses RDMA.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := l.dialer.DialConn(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.check(c)
	l.made.Add(1)
	return c, nil
}

// check fails the test if a connection, of either side, does not use the provider.
func (l *link) check(c net.Conn) {
	rc, ok := c.(*rsock.Conn)
	if !ok {
		l.t.Errorf("connection of type %T", c)
		return
	}
	if tr := rc.Transport(); tr.Name != l.provider || !tr.RDMA() {
		l.t.Errorf("a connection goes by %v", tr)
	}
	if _, err := netip.ParseAddrPort(rc.RemoteAddr().String()); err != nil {
		l.t.Errorf("address of the peer: %v", err)
	}
}

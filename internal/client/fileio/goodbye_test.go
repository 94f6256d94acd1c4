package fileio

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/rdma"
)

// silence is a provider whose connections have a peer that does not answer when they end: the
// goodbye of each lasts until all have begun.
type silence struct {
	rdma.Provider
	mu    sync.Mutex
	until []time.Time   // the limits of the goodbyes
	wait  int           // goodbyes that have not begun
	all   chan struct{} // closed when all have
	alone atomic.Bool   // a goodbye was over before
}

func (p *silence) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return silentAdapter{a, p}, err
}

type silentAdapter struct {
	rdma.Adapter
	p *silence
}

func (a silentAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	return silentConnector{c, a.p}, err
}

type silentConnector struct {
	rdma.Connector
	p *silence
}

func (c silentConnector) Disconnect(ctx context.Context) error {
	p := c.p
	p.mu.Lock()
	end, _ := ctx.Deadline()
	p.until = append(p.until, end)
	if p.wait--; p.wait == 0 {
		close(p.all)
	}
	p.mu.Unlock()
	select {
	case <-p.all:
		return nil
	case <-time.After(30 * time.Second): // longer than ctx: the machine may be busy
		p.alone.Store(true)
		return errors.New("the others' goodbyes do not begin")
	}
}

// All goodbyes of a client have one time limit. The goodbyes of its connections are
// concurrent, and the session has the remaining time.
func TestGoodbyesShareOneLimit(t *testing.T) { onEach(t, testGoodbyesShareOneLimit) }

func testGoodbyesShareOneLimit(t *testing.T, on string) {
	const conns = 3
	p := &silence{wait: conns, all: make(chan struct{})}
	for _, q := range defaults() {
		if q.Name() == on {
			p.Provider = q
		}
	}
	s := newRawServer(t, on, newFakeShare())
	var session time.Time
	s.sess.onClose = func(ctx context.Context) { session, _ = ctx.Deadline() }
	c := s.connect(base.Config{Connections: conns, Providers: []rdma.Provider{p}})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if p.alone.Load() || p.wait != 0 {
		t.Errorf("connections were left one after the other, %d not at all", p.wait)
	}
	if session.IsZero() || session.After(slices.MinFunc(p.until, time.Time.Compare)) {
		t.Errorf("the session has until %v, the connections until %v", session, p.until)
	}
}

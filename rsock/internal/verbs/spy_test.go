package verbs

import (
	"context"
	"net/netip"
	"sync/atomic"

	"lwio/rdma"
)

// spy is a provider that counts open registrations, and refuses new ones on demand.
type spy struct {
	rdma.Provider
	open   atomic.Int64
	refuse atomic.Bool
}

func (p *spy) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return &spyAdapter{a, p}, nil
}

type spyAdapter struct {
	rdma.Adapter
	p *spy
}

func (a *spyAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	if a.p.refuse.Load() {
		return nil, rdma.StatusInsufficientResources
	}
	m, err := a.Adapter.RegisterMemory(ctx, buf, access)
	if err != nil {
		return nil, err
	}
	a.p.open.Add(1)
	return &spyRegion{MemoryRegion: m, p: a.p}, nil
}

func (a *spyAdapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	q, err := a.Adapter.CreateQueuePair(cfg)
	if err != nil {
		return nil, err
	}
	return &spyPair{q}, nil
}

func (a *spyAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	if err != nil {
		return nil, err
	}
	return &spyConnector{c}, nil
}

func (a *spyAdapter) CreateListener() (rdma.Listener, error) {
	l, err := a.Adapter.CreateListener()
	if err != nil {
		return nil, err
	}
	return &spyListener{l}, nil
}

type spyRegion struct {
	rdma.MemoryRegion
	p      *spy
	closed atomic.Bool
}

func (m *spyRegion) Close() error {
	err := m.MemoryRegion.Close()
	if err == nil && m.closed.CompareAndSwap(false, true) {
		m.p.open.Add(-1)
	}
	return err
}

// bare replaces the regions of a list by the regions of the provider below.
func bare(sgl []rdma.SGE) []rdma.SGE {
	out := make([]rdma.SGE, len(sgl))
	for i, e := range sgl {
		e.Region = e.Region.(*spyRegion).MemoryRegion
		out[i] = e
	}
	return out
}

type spyPair struct{ rdma.QueuePair }

func (q *spyPair) Post(reqs []rdma.Request) (int, error) {
	out := make([]rdma.Request, len(reqs))
	for i, r := range reqs {
		r.SGL = bare(r.SGL)
		out[i] = r
	}
	return q.QueuePair.Post(out)
}

func (q *spyPair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	out := make([]rdma.ReceiveRequest, len(reqs))
	for i, r := range reqs {
		r.SGL = bare(r.SGL)
		out[i] = r
	}
	return q.QueuePair.PostReceive(out)
}

type spyConnector struct{ rdma.Connector }

func (c *spyConnector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, l rdma.ReadLimits, private []byte) error {
	return c.Connector.Connect(ctx, qp.(*spyPair).QueuePair, remote, l, private)
}

func (c *spyConnector) Accept(ctx context.Context, qp rdma.QueuePair, l rdma.ReadLimits, private []byte) error {
	return c.Connector.Accept(ctx, qp.(*spyPair).QueuePair, l, private)
}

type spyListener struct{ rdma.Listener }

func (l *spyListener) ConnectionRequest(ctx context.Context, into rdma.Connector) error {
	return l.Listener.ConnectionRequest(ctx, into.(*spyConnector).Connector)
}

package rdmatest

import (
	"context"
	"net/netip"

	"lwio/rdma"
)

// flaws replace calls of a broken provider. A nil function leaves the call unchanged.
type flaws struct {
	post    func(q rdma.QueuePair, reqs []rdma.Request) (int, error)
	receive func(q rdma.QueuePair, reqs []rdma.ReceiveRequest) (int, error)
	flush   func(q rdma.QueuePair) error
	poll    func(q rdma.CompletionQueue, res []rdma.Result) (int, error)
	notify  func(q rdma.CompletionQueue, ctx context.Context, kind rdma.NotifyKind) error
	resize  func(q rdma.CompletionQueue, depth int) error
	info    func(rdma.AdapterInfo) rdma.AdapterInfo
	addrs   func([]netip.Addr) []netip.Addr
	err     func(error) error // for every call of the control path
	config  func(rdma.QueuePairConfig) rdma.QueuePairConfig
	access  func(rdma.Access) rdma.Access
	remote  func(rdma.RemoteAddr) rdma.RemoteAddr // for regions
	limits  func(rdma.ReadLimits) rdma.ReadLimits
	private func([]byte) []byte
	addr    func(rdma.Addr) rdma.Addr
	done    func() <-chan struct{}
	// closeObject replaces the close of objects, by kind.
	closeObject map[string]func(inner func() error) error
	// reject and disconnect replace the methods.
	reject     func(c rdma.Connector, data []byte) error
	disconnect func(c rdma.Connector, ctx context.Context) error
	accept     func(ctx context.Context) context.Context
	connect    func(ctx context.Context) context.Context
	request    func(ctx context.Context) context.Context
	bind       func(inner func() error) error
	alloc      func(n int) int
	// shared replaces a shared receive queue.
	shared func(rdma.SharedReceiveQueue) rdma.SharedReceiveQueue
	trim   func(q rdma.QueuePair)
}

func (f *flaws) fail(err error) error {
	if f.err != nil && err != nil {
		return f.err(err)
	}
	return err
}

func (f *flaws) close(what string, inner func() error) error {
	if g := f.closeObject[what]; g != nil {
		return g(inner)
	}
	return inner()
}

type brokenProvider struct {
	rdma.Provider
	f *flaws
}

func (p brokenProvider) OpenAdapter(ctx context.Context, ip netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, ip)
	if err != nil {
		return nil, p.f.fail(err)
	}
	return brokenAdapter{a, p.f}, nil
}

func (p brokenProvider) Addrs(ctx context.Context) ([]netip.Addr, error) {
	addrs, err := p.Provider.Addrs(ctx)
	if p.f.addrs != nil {
		addrs = p.f.addrs(addrs)
	}
	return addrs, err
}

type brokenAdapter struct {
	rdma.Adapter
	f *flaws
}

func (a brokenAdapter) Close() error { return a.f.close("adapter", a.Adapter.Close) }

func (a brokenAdapter) Info() rdma.AdapterInfo {
	if a.f.info != nil {
		return a.f.info(a.Adapter.Info())
	}
	return a.Adapter.Info()
}

func (a brokenAdapter) Alloc(ctx context.Context, n int) (rdma.Memory, error) {
	if a.f.alloc != nil {
		n = a.f.alloc(n)
	}
	return a.Adapter.Alloc(ctx, n)
}

func (a brokenAdapter) RegisterMemory(ctx context.Context, b []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	if a.f.access != nil {
		access = a.f.access(access)
	}
	m, err := a.Adapter.RegisterMemory(ctx, b, access)
	if err != nil {
		return nil, a.f.fail(err)
	}
	if a.f.closeObject["region"] == nil && a.f.remote == nil {
		return m, nil
	}
	return brokenRegion{m, a.f}, nil
}

func (a brokenAdapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	w, err := a.Adapter.CreateMemoryWindow()
	if err != nil || a.f.closeObject["window"] == nil {
		return w, a.f.fail(err)
	}
	return brokenWindow{w, a.f}, nil
}

func (a brokenAdapter) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	q, err := a.Adapter.CreateSharedReceiveQueue(cfg)
	if err != nil || a.f.shared == nil {
		return q, a.f.fail(err)
	}
	return a.f.shared(q), nil
}

func (a brokenAdapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	q, err := a.Adapter.CreateCompletionQueue(depth)
	if err != nil {
		return nil, a.f.fail(err)
	}
	return &brokenQueue{q, a.f}, nil
}

func (a brokenAdapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	if q, ok := cfg.ReceiveCQ.(*brokenQueue); ok {
		cfg.ReceiveCQ = q.CompletionQueue
	}
	if q, ok := cfg.InitiatorCQ.(*brokenQueue); ok {
		cfg.InitiatorCQ = q.CompletionQueue
	}
	if q, ok := cfg.SharedReceive.(brokenShared); ok {
		cfg.SharedReceive = q.SharedReceiveQueue
	}
	if a.f.config != nil {
		cfg = a.f.config(cfg)
	}
	q, err := a.Adapter.CreateQueuePair(cfg)
	if err != nil {
		return nil, a.f.fail(err)
	}
	return &brokenPair{q, a.f}, nil
}

func (a brokenAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	if err != nil {
		return nil, a.f.fail(err)
	}
	return &brokenConnector{c, a.f}, nil
}

func (a brokenAdapter) CreateListener() (rdma.Listener, error) {
	l, err := a.Adapter.CreateListener()
	if err != nil {
		return nil, a.f.fail(err)
	}
	return brokenListener{l, a.f}, nil
}

// brokenShared ignores calls of a shared receive queue.
type brokenShared struct{ rdma.SharedReceiveQueue }

func (brokenShared) Modify(int, int) error      { return nil }
func (brokenShared) Wait(context.Context) error { return nil }
func (brokenShared) Close() error               { return nil }

type brokenRegion struct {
	rdma.MemoryRegion
	f *flaws
}

func (m brokenRegion) Close() error { return m.f.close("region", m.MemoryRegion.Close) }

func (m brokenRegion) RemoteAddr() rdma.RemoteAddr {
	if m.f.remote != nil {
		return m.f.remote(m.MemoryRegion.RemoteAddr())
	}
	return m.MemoryRegion.RemoteAddr()
}

type brokenWindow struct {
	rdma.MemoryWindow
	f *flaws
}

func (w brokenWindow) Close() error { return w.f.close("window", w.MemoryWindow.Close) }

type brokenQueue struct {
	rdma.CompletionQueue
	f *flaws
}

func (q *brokenQueue) Close() error { return q.f.close("completion queue", q.CompletionQueue.Close) }

func (q *brokenQueue) Poll(res []rdma.Result) (int, error) {
	if q.f.poll != nil {
		return q.f.poll(q.CompletionQueue, res)
	}
	return q.CompletionQueue.Poll(res)
}

func (q *brokenQueue) Wait(ctx context.Context, kind rdma.NotifyKind) error {
	if q.f.notify != nil {
		return q.f.notify(q.CompletionQueue, ctx, kind)
	}
	return q.CompletionQueue.Wait(ctx, kind)
}

func (q *brokenQueue) Resize(depth int) error {
	if q.f.resize != nil {
		return q.f.resize(q.CompletionQueue, depth)
	}
	return q.CompletionQueue.Resize(depth)
}

type brokenPair struct {
	rdma.QueuePair
	f *flaws
}

func (q *brokenPair) Close() error { return q.f.close("queue pair", q.QueuePair.Close) }

func (q *brokenPair) TrimIdle() {
	if q.f.trim != nil {
		q.f.trim(q.QueuePair)
		return
	}
	q.QueuePair.TrimIdle()
}

// bare unwraps the regions.
func bare(sgl []rdma.SGE) []rdma.SGE {
	out := append([]rdma.SGE(nil), sgl...)
	for i := range out {
		if m, ok := out[i].Region.(brokenRegion); ok {
			out[i].Region = m.MemoryRegion
		}
	}
	return out
}

func (q *brokenPair) Post(reqs []rdma.Request) (int, error) {
	reqs = append([]rdma.Request(nil), reqs...)
	for i := range reqs {
		reqs[i].SGL = bare(reqs[i].SGL)
		if w, ok := reqs[i].Window.(brokenWindow); ok {
			reqs[i].Window = w.MemoryWindow
		}
	}
	if q.f.post != nil {
		return q.f.post(q.QueuePair, reqs)
	}
	return q.QueuePair.Post(reqs)
}

func (q *brokenPair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	reqs = append([]rdma.ReceiveRequest(nil), reqs...)
	for i := range reqs {
		reqs[i].SGL = bare(reqs[i].SGL)
	}
	if q.f.receive != nil {
		return q.f.receive(q.QueuePair, reqs)
	}
	return q.QueuePair.PostReceive(reqs)
}

func (q *brokenPair) Flush() error {
	if q.f.flush != nil {
		return q.f.flush(q.QueuePair)
	}
	return q.QueuePair.Flush()
}

type brokenConnector struct {
	rdma.Connector
	f *flaws
}

func barePair(qp rdma.QueuePair) rdma.QueuePair {
	if q, ok := qp.(*brokenPair); ok {
		return q.QueuePair
	}
	return qp
}

func (c *brokenConnector) Close() error { return c.f.close("connector", c.Connector.Close) }

func (c *brokenConnector) Bind(ctx context.Context, local rdma.Addr) error {
	if c.f.bind != nil {
		return c.f.bind(func() error { return c.Connector.Bind(ctx, local) })
	}
	return c.f.fail(c.Connector.Bind(ctx, local))
}

func (c *brokenConnector) Connect(ctx context.Context, qp rdma.QueuePair, to rdma.Addr, l rdma.ReadLimits, p []byte) error {
	if c.f.connect != nil {
		ctx = c.f.connect(ctx)
	}
	return c.f.fail(c.Connector.Connect(ctx, barePair(qp), to, l, p))
}

func (c *brokenConnector) CompleteConnect(ctx context.Context) error {
	return c.f.fail(c.Connector.CompleteConnect(ctx))
}

func (c *brokenConnector) Accept(ctx context.Context, qp rdma.QueuePair, l rdma.ReadLimits, p []byte) error {
	if c.f.accept != nil {
		ctx = c.f.accept(ctx)
	}
	return c.f.fail(c.Connector.Accept(ctx, barePair(qp), l, p))
}

func (c *brokenConnector) Reject(p []byte) error {
	if c.f.reject != nil {
		return c.f.reject(c.Connector, p)
	}
	return c.f.fail(c.Connector.Reject(p))
}

func (c *brokenConnector) Disconnect(ctx context.Context) error {
	if c.f.disconnect != nil {
		return c.f.disconnect(c.Connector, ctx)
	}
	return c.f.fail(c.Connector.Disconnect(ctx))
}

func (c *brokenConnector) ReadLimits() (rdma.ReadLimits, error) {
	l, err := c.Connector.ReadLimits()
	if c.f.limits != nil {
		l = c.f.limits(l)
	}
	return l, err
}

func (c *brokenConnector) PrivateData() ([]byte, error) {
	p, err := c.Connector.PrivateData()
	if c.f.private != nil {
		p = c.f.private(p)
	}
	return p, err
}

func (c *brokenConnector) PeerAddr() (rdma.Addr, error) {
	a, err := c.Connector.PeerAddr()
	if err == nil && c.f.addr != nil {
		a = c.f.addr(a)
	}
	return a, err
}

func (c *brokenConnector) Done() <-chan struct{} {
	if c.f.done != nil {
		return c.f.done()
	}
	return c.Connector.Done()
}

type brokenListener struct {
	rdma.Listener
	f *flaws
}

func (l brokenListener) Close() error { return l.f.close("listener", l.Listener.Close) }

func (l brokenListener) Bind(ctx context.Context, a rdma.Addr) error {
	return l.f.fail(l.Listener.Bind(ctx, a))
}

func (l brokenListener) LocalAddr() (rdma.Addr, error) {
	a, err := l.Listener.LocalAddr()
	return a, l.f.fail(err)
}

func (l brokenListener) ConnectionRequest(ctx context.Context, into rdma.Connector) error {
	if l.f.request != nil {
		ctx = l.f.request(ctx)
	}
	if c, ok := into.(*brokenConnector); ok {
		into = c.Connector
	}
	return l.f.fail(l.Listener.ConnectionRequest(ctx, into))
}

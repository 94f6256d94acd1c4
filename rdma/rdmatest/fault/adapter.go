package fault

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"lwio/rdma"
)

// adapter makes wrapped objects.
type adapter struct {
	p     *Provider
	inner rdma.Adapter
	pairs pairTable
	spare sync.Pool // of *scratch
}

var _ rdma.Adapter = (*adapter)(nil)

// size names an object by its size.
type size int

func (s size) String() string { return strconv.Itoa(int(s)) }

// Info returns the information of the wrapped adapter, without the capabilities that the
// wrapper removes.
func (a *adapter) Info() rdma.AdapterInfo {
	info := a.inner.Info()
	if a.p.cfg.Shuffle != 0 {
		info.Caps &^= rdma.CapInOrderPlacement
	}
	return info
}

func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) { return a.inner.Addrs(ctx) }
func (a *adapter) Close() error                                    { return a.p.close("adapter", a.inner) }

func (a *adapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	start := a.p.start()
	inner, err := a.inner.CreateCompletionQueue(depth)
	a.p.control(start, "create completion queue", size(depth), err)
	if err != nil {
		return nil, err
	}
	q := &completionQueue{a: a, inner: inner}
	if a.p.cfg.Shuffle != 0 {
		q.dice = newDice(a.p.cfg.Shuffle, a.p.queues.Add(1))
	}
	return q, nil
}

// Alloc returns memory of the wrapped adapter.
func (a *adapter) Alloc(ctx context.Context, n int) (rdma.Memory, error) {
	start := a.p.start()
	m, err := a.inner.Alloc(ctx, n)
	a.p.control(start, "alloc", size(n), err)
	return m, err
}

func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	start := a.p.start()
	inner, err := a.inner.RegisterMemory(ctx, buf, access)
	a.p.control(start, "register memory", size(len(buf)), err)
	if err != nil {
		return nil, err
	}
	a.p.count.regions.Add(1)
	a.p.count.regionBytes.Add(uint64(len(buf)))
	if access&(rdma.AccessRemoteWrite|rdma.AccessRemoteRead)&^rdma.AccessLocalWrite != 0 {
		a.p.count.exposed.Add(1)
	}
	return &region{p: a.p, inner: inner}, nil
}

func (a *adapter) RegisterFile(ctx context.Context, f *os.File) (rdma.FileSource, error) {
	start := a.p.start()
	inner, err := a.inner.RegisterFile(ctx, f)
	a.p.control(start, "register file", nil, err)
	if err != nil {
		return nil, err
	}
	return &fileSource{p: a.p, inner: inner}, nil
}

func (a *adapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	start := a.p.start()
	inner, err := a.inner.CreateMemoryWindow()
	a.p.control(start, "create memory window", nil, err)
	if err != nil {
		return nil, err
	}
	return &window{p: a.p, inner: inner}, nil
}

func (a *adapter) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	start := a.p.start()
	inner, err := a.inner.CreateSharedReceiveQueue(cfg)
	a.p.control(start, "create shared receive queue", size(cfg.Depth), err)
	if err != nil {
		return nil, err
	}
	return &sharedReceiveQueue{p: a.p, a: a, inner: inner}, nil
}

func (a *adapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	q := &queuePair{a: a, cfg: cfg, number: a.p.pairs.Add(1)}
	cfg.ReceiveCQ, cfg.InitiatorCQ = bareQueue(cfg.ReceiveCQ), bareQueue(cfg.InitiatorCQ)
	if s, ok := cfg.SharedReceive.(*sharedReceiveQueue); ok && s != nil {
		cfg.SharedReceive = s.inner
	}
	if a.p.cfg.Shuffle != 0 {
		q.dice = newDice(^a.p.cfg.Shuffle, q.number)
	}
	if a.p.cfg.numbered() {
		cfg.Context = q.number
		a.pairs.add(q)
	}
	start := a.p.start()
	inner, err := a.inner.CreateQueuePair(cfg)
	a.p.control(start, "create queue pair", nil, err)
	if err != nil {
		a.pairs.remove(q)
		return nil, err
	}
	q.inner = inner
	return q, nil
}

func (a *adapter) CreateConnector() (rdma.Connector, error) {
	inner, err := a.inner.CreateConnector()
	if err != nil {
		return nil, err
	}
	return &connector{p: a.p, inner: inner}, nil
}

func (a *adapter) CreateListener() (rdma.Listener, error) {
	inner, err := a.inner.CreateListener()
	if err != nil {
		return nil, err
	}
	return &listener{p: a.p, inner: inner}, nil
}

package rdmatest

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"

	"lwio/rdma"
)

var adapterCases = []Case{
	{Name: "adapter/info", Source: "[ND ND2_ADAPTER_INFO], [ND ndadapterinfo]", run: adapterInfo},
	{Name: "adapter/addresses", Source: "[ND Provider.QueryAddressList], [ND ndadapterinfo]", run: adapterAddresses},
	{Name: "adapter/foreign-address", Source: "[ND Provider.OpenAdapter]", run: foreignAddress},
	{Name: "adapter/completion-queue-depth", Source: "[ND Adapter.CreateCompletionQueue]", run: completionQueueDepth},
	{Name: "adapter/queue-pair-parameters", Source: "[ND Adapter.CreateQueuePair], [ND NdLargeQPDepth]", run: queuePairParameters},
	{Name: "adapter/all-at-maximum", Source: "[ND NdQpMaxAll]", run: allAtMaximum},
	{Name: "adapter/unsupported", Source: "[ND Status codes]", run: unsupportedObjects},
}

func adapterInfo(r *rig) {
	a := r.adapter()
	info := a.Info()
	for name, v := range map[string]int{
		"MaxInitiatorSGE": info.MaxInitiatorSGE, "MaxReceiveSGE": info.MaxReceiveSGE,
		"MaxReceiveQueueDepth": info.MaxReceiveQueueDepth, "MaxInitiatorQueueDepth": info.MaxInitiatorQueueDepth,
		"MaxCompletionQueueDepth": info.MaxCompletionQueueDepth,
		"MaxCallerData":           info.MaxCallerData, "MaxCalleeData": info.MaxCalleeData,
	} {
		if v < 1 {
			r.Errorf("%s is %d", name, v)
		}
	}
	if info.MaxRegistrationSize == 0 || info.MaxTransferLength == 0 {
		r.Errorf("no memory can be registered or transferred: %+v", info)
	}
	if info.MaxReadSGE > info.MaxInitiatorSGE {
		r.Errorf("MaxReadSGE is %d, above MaxInitiatorSGE %d", info.MaxReadSGE, info.MaxInitiatorSGE)
	}
	reads := info.MaxReadSGE > 0 && info.MaxInboundReadLimit > 0 && info.MaxOutboundReadLimit > 0
	if info.Caps.Has(rdma.CapRead) != reads {
		r.Errorf("CapRead is %v, the read limits imply %v: %+v", !reads, reads, info)
	}
	if info.Caps.Has(rdma.CapSharedReceive) != (info.MaxSharedReceiveQueueDepth > 0) {
		r.Errorf("CapSharedReceive and MaxSharedReceiveQueueDepth %d disagree", info.MaxSharedReceiveQueueDepth)
	}
	if a.Info() != info {
		r.Error("the information changes")
	}
	if r.provider.Name() == "" || r.provider.Name() != r.cfg.Addr.Fabric {
		r.Errorf("the provider is called %q, its addresses are of fabric %q", r.provider.Name(), r.cfg.Addr.Fabric)
	}
}

func adapterAddresses(r *rig) {
	addrs, err := r.provider.Addrs(r.ctx())
	r.ok("addresses of the provider", err)
	if len(addrs) == 0 && r.cfg.Addr.AddrPort.IsValid() {
		r.Error("a provider on IP has no address")
	}
	for _, ip := range addrs {
		a, err := r.provider.OpenAdapter(r.ctx(), ip)
		if err != nil {
			// The interface may have gone meanwhile; then it is no longer listed.
			if now, _ := r.provider.Addrs(r.ctx()); slices.Contains(now, ip) {
				r.Errorf("%v is listed and cannot be opened: %v", ip, err)
			}
			continue
		}
		own, err := a.Addrs(r.ctx())
		if err != nil || len(own) == 0 {
			r.Errorf("adapter %v lists the addresses %v, %v", ip, own, err)
		}
		r.closeNow("adapter", a)
	}
}

func foreignAddress(r *rig) {
	if !r.cfg.Addr.AddrPort.IsValid() {
		return
	}
	// This is a documentation address, which no host has.
	a, err := r.provider.OpenAdapter(r.ctx(), netip.MustParseAddr("192.0.2.77"))
	if err == nil {
		r.closeNow("adapter", a)
	}
	r.fails("open an adapter at a foreign address", err, rdma.StatusInvalidAddress)
}

func completionQueueDepth(r *rig) {
	a := r.adapter()
	most := a.Info().MaxCompletionQueueDepth
	for _, depth := range []int{1, most} {
		r.queue(a, depth)
	}
	for _, depth := range []int{0, -1, most + 1, math.MaxInt, math.MinInt} {
		q, err := a.CreateCompletionQueue(depth)
		if err == nil {
			r.closeNow("completion queue", q)
		}
		r.fails("a completion queue of a wrong depth", err, rdma.StatusInvalidParameterN(3))
	}
}

func queuePairParameters(r *rig) {
	e := r.end(r.adapter(), shape{})
	info := e.adapter.Info()
	for _, c := range []struct {
		what   string
		n      int
		change func(*rdma.QueuePairConfig)
	}{
		{"no receive queue", 2, func(c *rdma.QueuePairConfig) { c.ReceiveCQ = nil }},
		{"no initiator queue", 3, func(c *rdma.QueuePairConfig) { c.InitiatorCQ = nil }},
		{"receive depth above the limit", 5, func(c *rdma.QueuePairConfig) { c.ReceiveDepth = info.MaxReceiveQueueDepth + 1 }},
		{"receive depth negative", 5, func(c *rdma.QueuePairConfig) { c.ReceiveDepth = -1 }},
		{"receive depth enormous", 5, func(c *rdma.QueuePairConfig) { c.ReceiveDepth = math.MaxInt }},
		{"initiator depth above the limit", 6, func(c *rdma.QueuePairConfig) { c.InitiatorDepth = info.MaxInitiatorQueueDepth + 1 }},
		{"initiator depth negative", 6, func(c *rdma.QueuePairConfig) { c.InitiatorDepth = -1 }},
		{"receive SGE above the limit", 7, func(c *rdma.QueuePairConfig) { c.MaxReceiveSGE = info.MaxReceiveSGE + 1 }},
		{"receive SGE negative", 7, func(c *rdma.QueuePairConfig) { c.MaxReceiveSGE = -1 }},
		{"initiator SGE above the limit", 8, func(c *rdma.QueuePairConfig) { c.MaxInitiatorSGE = info.MaxInitiatorSGE + 1 }},
		{"initiator SGE negative", 8, func(c *rdma.QueuePairConfig) { c.MaxInitiatorSGE = -1 }},
		{"inline size above the limit", 9, func(c *rdma.QueuePairConfig) { c.InlineSize = info.MaxInlineDataSize + 1 }},
		{"inline size negative", 9, func(c *rdma.QueuePairConfig) { c.InlineSize = -1 }},
	} {
		cfg := e.config()
		c.change(&cfg)
		qp, err := e.adapter.CreateQueuePair(cfg)
		if err == nil {
			r.closeNow("queue pair", qp)
		}
		if got := rdma.StatusOf(err); got != rdma.StatusInvalidParameterN(c.n) {
			r.Errorf("%s: %v, want %v", c.what, got, rdma.StatusInvalidParameterN(c.n))
		}
		r.is(c.what, err, rdma.StatusInvalidParameter)
	}
}

// allAtMaximum makes a pair with every number at its limit, and uses it.
func allAtMaximum(r *rig) {
	info := r.adapter().Info()
	s := shape{
		depth: min(info.MaxReceiveQueueDepth, info.MaxInitiatorQueueDepth, info.MaxCompletionQueueDepth-8),
		cq:    info.MaxCompletionQueueDepth, sge: min(info.MaxReceiveSGE, info.MaxInitiatorSGE), inline: info.MaxInlineDataSize,
	}
	active, passive := r.pair(s)
	room := s.inline + s.sge
	for range s.depth {
		passive.receive(1, passive.sge(0, room))
	}
	_, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{SGL: passive.sge(0, 1)}})
	r.fails("a receive more than the depth", err, rdma.StatusNoMoreEntries)

	fill(active.mem)
	sgl := make([]rdma.SGE, s.sge)
	for i := range sgl {
		sgl[i] = rdma.SGE{Region: active.region, Offset: i, Length: 1}
	}
	active.post(rdma.Request{Op: rdma.OpSend, SGL: sgl})
	if res := passive.received(); res.Bytes != s.sge || !same(passive.mem[:s.sge], active.mem[:s.sge]) {
		r.Errorf("%d pieces of one byte arrive as %+v", s.sge, res)
	}
	active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: active.mem[:s.inline]})
	if res := passive.received(); res.Bytes != s.inline || !same(passive.mem[:s.inline], active.mem[:s.inline]) {
		r.Errorf("%d inline bytes arrive as %+v", s.inline, res)
	}
}

// unsupportedObjects checks that an adapter without an object refuses it with
// StatusNotSupported.
func unsupportedObjects(r *rig) {
	a := r.adapter()
	e := r.end(a, shape{})
	caps := a.Info().Caps
	for _, c := range []struct {
		what string
		cap  rdma.Caps
		try  func(context.Context) error
	}{
		{"file source", rdma.CapFileSource, func(ctx context.Context) error {
			_, err := a.RegisterFile(ctx, nil)
			return err
		}},
		{"window", rdma.CapWindows, func(context.Context) error {
			_, err := a.CreateMemoryWindow()
			return err
		}},
		{"shared receive queue", rdma.CapSharedReceive, func(context.Context) error {
			_, err := a.CreateSharedReceiveQueue(rdma.SharedReceiveQueueConfig{Depth: 1, MaxSGE: 1})
			return err
		}},
		{"resize", rdma.CapCQResize, func(context.Context) error { return e.rcq.Resize(64) }},
	} {
		if caps.Has(c.cap) {
			continue
		}
		err := c.try(r.ctx())
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, rdma.StatusNotSupported) {
			r.Errorf("%s: the adapter has none, and returns %v", c.what, err)
		}
	}
}

package rdmatest

import (
	"context"
	"errors"

	"lwio/rdma"
)

var sharedCases = []Case{
	{Name: "shared/many-pairs", Source: "[ND Adapter.CreateQueuePairWithSrq]", Needs: rdma.CapSharedReceive, run: sharedByMany},
	{Name: "shared/empty-waits", Source: "[ND SharedReceiveQueue]", Needs: rdma.CapSharedReceive, run: sharedEmpty},
	{Name: "shared/fair-share", Source: "[RFC 5042 §6.4.3.1]", Needs: rdma.CapSharedReceive, run: sharedGreedy},
	{Name: "shared/waiting-closes", Source: "[ND SharedReceiveQueue]", Needs: rdma.CapSharedReceive, run: sharedWaitingCloses},
	{Name: "shared/notify", Source: "[ND SharedReceiveQueue.Notify]", Needs: rdma.CapSharedReceive, run: sharedNotify},
	{Name: "shared/modify", Source: "[ND SharedReceiveQueue.Modify]", Needs: rdma.CapSharedReceive, run: sharedModify},
	{Name: "shared/refused", Source: "[ND SharedReceiveQueue.Receive], [ND Adapter.CreateSharedReceiveQueue]", Needs: rdma.CapSharedReceive, run: sharedRefused},
	{Name: "shared/close", Source: "[ND IUnknown.Release]", Needs: rdma.CapSharedReceive, run: sharedClose},
}

// shared makes a shared receive queue for the rest of the case.
func (r *rig) shared(a rdma.Adapter, cfg rdma.SharedReceiveQueueConfig) rdma.SharedReceiveQueue {
	r.Helper()
	q, err := a.CreateSharedReceiveQueue(cfg)
	r.ok("create shared receive queue", err)
	r.closeLater("shared receive queue", q)
	return q
}

// sharers are ends that share a receive queue, and their peers.
type sharers struct {
	r     *rig
	queue rdma.SharedReceiveQueue
	a     rdma.Adapter
	mem   *end // the end with the memory of the receives
	ends  []*end
	peers []*end
}

func (r *rig) sharers(n int, cfg rdma.SharedReceiveQueueConfig) *sharers {
	r.Helper()
	c := &sharers{r: r, a: r.adapter()}
	c.queue = r.shared(c.a, cfg)
	c.mem = r.end(c.a, shape{})
	peers := r.adapter()
	for range n {
		e, peer := r.end(c.a, shape{shared: c.queue}), r.end(peers, shape{})
		r.join(peer, e)
		c.ends, c.peers = append(c.ends, e), append(c.peers, peer)
	}
	return c
}

// post posts receives of 64 bytes, each in its own place. It posts them in one call, so
// that waiting connections see all of them when they continue. With several calls, a
// connection's share would be computed from the first few receives only.
func (c *sharers) post(from, n int) {
	c.r.Helper()
	reqs := make([]rdma.ReceiveRequest, n)
	for i := range reqs {
		reqs[i] = rdma.ReceiveRequest{ID: uint64(from + i), SGL: c.mem.sge(64*(from+i), 64)}
	}
	if took, err := c.queue.PostReceive(reqs); took != n || err != nil {
		c.r.Fatalf("post shared receive: took %d of %d, %v", took, n, err)
	}
}

// say sends 8 bytes from a peer.
func (c *sharers) say(i int, b byte) {
	c.r.Helper()
	p := c.peers[i]
	for j := range 8 {
		p.mem[j] = b
	}
	p.post(rdma.Request{Op: rdma.OpSend, SGL: p.sge(0, 8)})
	if res := p.sent(); res.Status != rdma.StatusSuccess {
		c.r.Fatalf("send: %+v", res)
	}
}

// took checks the next message of an end.
func (c *sharers) took(i int, b byte) {
	c.r.Helper()
	e := c.ends[i]
	res := e.received()
	if res.Status != rdma.StatusSuccess || res.Op != rdma.OpReceive || res.Bytes != 8 || res.QueuePairContext != e.context {
		c.r.Fatalf("receive: %+v", res)
	}
	if !all(c.mem.mem[64*res.ID:64*res.ID+8], b) {
		c.r.Fatalf("receive %d holds another message than %d", res.ID, b)
	}
}

func sharedByMany(r *rig) {
	c := r.sharers(3, rdma.SharedReceiveQueueConfig{Depth: 64, MaxSGE: 1})
	c.post(0, 30)
	for i := range 30 {
		c.say(i%3, byte(i+1))
		c.took(i%3, byte(i+1))
	}
}

// sharedEmpty checks that a message without a receive waits, together with the later
// messages of its connection. The other connections continue, and no connection ends.
func sharedEmpty(r *rig) {
	c := r.sharers(2, rdma.SharedReceiveQueueConfig{Depth: 16, MaxSGE: 1})
	for i := range 4 {
		c.say(0, byte(i+1))
	}
	c.say(1, 9)
	r.empty("the queue of an end without receives", c.ends[0].rcq)
	n := r.begin("notify", func(ctx context.Context) error { return c.ends[1].rcq.Wait(ctx, rdma.NotifyAny) })
	c.post(0, 5)
	for i := range 4 {
		c.took(0, byte(i+1))
	}
	r.ok("notify", n.wait())
	c.took(1, 9)
	c.post(0, 2)
	c.say(0, 50)
	c.took(0, 50)
	c.say(1, 51)
	c.took(1, 51)
}

// sharedGreedy checks that a connection that sends more messages than there are receives
// does not get all receives. Its other messages wait.
func sharedGreedy(r *rig) {
	c := r.sharers(2, rdma.SharedReceiveQueueConfig{Depth: 16, MaxSGE: 1})
	c.post(0, 8)
	for i := range 12 {
		c.say(0, byte(i+1))
	}
	c.took(0, 1) // its messages have arrived
	c.say(1, 99)
	c.took(1, 99)
	for i := 1; i < 6; i++ {
		c.took(0, byte(i+1))
	}
	c.post(8, 8)
	for i := 6; i < 12; i++ {
		c.took(0, byte(i+1))
	}
}

// sharedWaitingCloses checks that a connection with a waiting message can be closed, and
// its queue pair too. Another end then gets the receives.
func sharedWaitingCloses(r *rig) {
	c := r.sharers(3, rdma.SharedReceiveQueueConfig{Depth: 16, MaxSGE: 1})
	for i := range 3 {
		c.say(i, byte(i+1))
	}
	r.closeNow("queue pair", c.ends[0].qp)
	r.ends("the end that closed", c.ends[0].conn)
	r.closeNow("connector", c.ends[1].conn)
	r.ends("the end that closed", c.ends[1].conn)
	c.post(0, 2)
	c.took(2, 3)
}

func sharedNotify(r *rig) {
	c := r.sharers(1, rdma.SharedReceiveQueueConfig{Depth: 16, MaxSGE: 1, NotifyThreshold: 2})
	notify := func() *call {
		return r.begin("notify", func(ctx context.Context) error { return c.queue.Wait(ctx) })
	}
	r.ok("notify of an empty queue", notify().wait())
	c.post(0, 3)
	first, second := r.park(func(ctx context.Context) error { return c.queue.Wait(ctx) }), notify()
	c.say(0, 1)
	c.took(0, 1)
	if first.over(0) {
		r.Error("a notification ends with as many receives as the threshold")
	}
	c.say(0, 2)
	c.took(0, 2)
	r.ok("notify", first.wait())
	r.ok("notify", second.wait())

	c.post(0, 2)
	canceled := r.park(func(ctx context.Context) error { return c.queue.Wait(ctx) })
	canceled.canceled()
	raised := r.park(func(ctx context.Context) error { return c.queue.Wait(ctx) })
	r.ok("modify", c.queue.Modify(0, 10))
	r.ok("notify after the threshold was raised", raised.wait())
}

func sharedModify(r *rig) {
	c := r.sharers(1, rdma.SharedReceiveQueueConfig{Depth: 4, MaxSGE: 1})
	c.post(0, 4)
	full := func(what string) {
		n, err := c.queue.PostReceive([]rdma.ReceiveRequest{{ID: 9}})
		if n != 0 {
			r.Errorf("%s: a receive too many is taken", what)
		}
		r.fails(what, err, rdma.StatusNoMoreEntries)
	}
	full("full queue")
	r.fails("modify below the posted receives", c.queue.Modify(3, 0), rdma.StatusBufferOverflow)
	r.fails("modify above the limit", c.queue.Modify(c.a.Info().MaxSharedReceiveQueueDepth+1, 0), rdma.StatusInvalidParameter)
	r.fails("modify to a negative threshold", c.queue.Modify(0, -1), rdma.StatusInvalidParameter)
	full("queue that was not modified")
	r.ok("modify without a change", c.queue.Modify(0, 0))
	r.ok("modify", c.queue.Modify(6, 0))
	c.post(4, 2)
	full("queue of another depth")
	for i := range 6 {
		c.say(0, byte(i+1))
		c.took(0, byte(i+1))
	}
}

func sharedRefused(r *rig) {
	a := r.adapter()
	info := a.Info()
	for _, c := range []struct {
		n   int
		cfg rdma.SharedReceiveQueueConfig
	}{
		{3, rdma.SharedReceiveQueueConfig{Depth: 0, MaxSGE: 1}},
		{3, rdma.SharedReceiveQueueConfig{Depth: info.MaxSharedReceiveQueueDepth + 1, MaxSGE: 1}},
		{4, rdma.SharedReceiveQueueConfig{Depth: 1, MaxSGE: info.MaxReceiveSGE + 1}},
	} {
		_, err := a.CreateSharedReceiveQueue(c.cfg)
		r.fails("create shared receive queue", err, rdma.StatusInvalidParameterN(c.n))
	}
	q := r.shared(a, rdma.SharedReceiveQueueConfig{Depth: info.MaxSharedReceiveQueueDepth, MaxSGE: 1})
	e := r.end(a, shape{shared: q})
	two := append(e.sge(0, 1), e.sge(1, 1)...)
	for what, c := range map[string]struct {
		sgl    []rdma.SGE
		status rdma.Status
	}{
		"too many entries":      {two, rdma.StatusDataOverrun},
		"memory past its end":   {e.sge(len(e.mem), 1), rdma.StatusAccessViolation},
		"another adapter's":     {r.end(r.adapter(), shape{}).sge(0, 1), rdma.StatusAccessViolation},
		"memory without rights": {[]rdma.SGE{{Region: r.region(a, make([]byte, 8), 0), Length: 8}}, rdma.StatusAccessViolation},
	} {
		n, err := q.PostReceive([]rdma.ReceiveRequest{{}, {SGL: c.sgl}})
		if n != 1 {
			r.Errorf("%s: took %d", what, n)
		}
		r.fails(what, err, c.status)
	}
	if n, err := e.qp.PostReceive([]rdma.ReceiveRequest{{}}); n != 0 || err == nil {
		r.Errorf("a queue pair with a shared queue takes a receive: %v", err)
	}
	cfg := e.config()
	for what, c := range map[string]struct {
		n      int
		change func(*rdma.QueuePairConfig)
	}{
		"another adapter's queue": {4, func(cfg *rdma.QueuePairConfig) {
			cfg.SharedReceive = r.shared(r.adapter(), rdma.SharedReceiveQueueConfig{Depth: 1, MaxSGE: 1})
		}},
		"initiator depth": {6, func(cfg *rdma.QueuePairConfig) { cfg.InitiatorDepth = info.MaxInitiatorQueueDepth + 1 }},
		"initiator SGE":   {7, func(cfg *rdma.QueuePairConfig) { cfg.MaxInitiatorSGE = info.MaxInitiatorSGE + 1 }},
		"inline size":     {8, func(cfg *rdma.QueuePairConfig) { cfg.InlineSize = info.MaxInlineDataSize + 1 }},
	} {
		wrong := cfg
		c.change(&wrong)
		_, err := a.CreateQueuePair(wrong)
		if !errors.Is(err, rdma.StatusInvalidParameterN(c.n)) {
			r.Errorf("%s: %v", what, err)
		}
	}
}

func sharedClose(r *rig) {
	a := r.adapter()
	q := r.shared(a, rdma.SharedReceiveQueueConfig{Depth: 4, MaxSGE: 1})
	n := r.park(func(ctx context.Context) error { return q.Wait(ctx) })
	r.closeNow("shared receive queue", q)
	r.fails("notify of a queue that closes", n.wait(), rdma.StatusCanceled)
	took, err := q.PostReceive([]rdma.ReceiveRequest{{}})
	if took != 0 {
		r.Error("a closed queue takes a receive")
	}
	r.fails("receive after close", err, rdma.StatusInvalidHandle)
	r.fails("notify after close", q.Wait(r.ctx()), rdma.StatusCanceled)
	r.closeNow("shared receive queue, again", q)
}

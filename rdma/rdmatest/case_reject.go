package rdmatest

import (
	"context"

	"lwio/rdma"
)

var rejectCases = []Case{
	{Name: "reject/by-listener", Source: "[ND Connector.Reject]", run: rejectByListener},
	{Name: "reject/by-client", Source: "[ND NdConnReject]", run: rejectByClient},
	{Name: "reject/client-closes", Source: "[ND NdConnClose]", run: clientCloses},
	{Name: "reject/listener-side-closes", Source: "[ND NdConnClose]", run: passiveCloses},
	{Name: "reject/peer-gave-up", Source: "[ND Connector.Accept]", run: peerGaveUp},
	{Name: "reject/collision", Source: "[ND ndmpic]", run: collision},
	{Name: "reject/no-listener", Source: "[ND NdConnListenClosing]", run: noListener},
	{Name: "reject/closing-listener", Source: "[ND NdConnListenClosing]", run: closingListener},
}

// rejectByListener checks that the refusal carries private data, and that the same
// connector and queue pair can be used for another attempt.
func rejectByListener(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	active.receive(77, active.sge(0, 8))
	info := passive.adapter.Info()
	m := r.meet(active, passive, []byte("may I?"))
	refuser := passive.conn
	r.fails("reject with too much private data", refuser.Reject(make([]byte, info.MaxCalleeData+1)), rdma.StatusInvalidBufferSize)
	why := make([]byte, info.MaxCalleeData)
	fill(why)
	r.ok("reject", refuser.Reject(why))
	r.fails("connect", m.connect.wait(), rdma.StatusConnectionRefused)
	r.hasPrivateData("rejection", active.conn, why)
	r.empty("the queue pair after a refusal", active.rcq)

	passive.conn = r.connector(passive.adapter)
	passive.receive(0, nil)
	m.ask(nil)
	m.agree()
	active.post(rdma.Request{Op: rdma.OpSend})
	passive.received()
	passive.post(rdma.Request{Op: rdma.OpSend, SGL: passive.sge(0, 8)})
	if res := active.received(); res.Status != rdma.StatusSuccess || res.ID != 77 {
		r.Errorf("the receive posted before the refusal: %+v", res)
	}
}

func rejectByClient(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	passive.receive(0, nil)
	accept := r.meet(active, passive, nil).accept(nil)
	r.ok("reject", active.conn.Reject([]byte("on second thought")))
	// NetworkDirect's test expects the first status, its text the second.
	r.fails("accept", accept.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

func clientCloses(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	passive.receive(0, nil)
	accept := r.meet(active, passive, nil).accept(nil)
	r.closeNow("connector", active.conn)
	r.fails("accept", accept.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

// passiveCloses checks that a connector that closes without an answer refuses the
// request.
func passiveCloses(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	m := r.meet(active, passive, nil)
	r.closeNow("connector", passive.conn)
	r.fails("connect", m.connect.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

// peerGaveUp accepts a request that the peer has abandoned. The listener continues to
// work.
func peerGaveUp(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	m := r.meet(active, passive, nil)
	r.closeNow("connector", active.conn)
	if err := m.connect.wait(); err == nil {
		r.Error("connect of a connector that closes succeeds")
	}
	passive.receive(0, nil)
	err := passive.conn.Accept(r.ctx(), passive.qp, rdma.ReadLimits{}, nil)
	r.fails("accept", err, rdma.StatusConnectionAborted, rdma.StatusConnectionRefused)
	if err == nil {
		return // the queue pair cannot be used again
	}

	active.conn, passive.conn = r.connector(active.adapter), r.connector(passive.adapter)
	m.active, m.passive = active, passive
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	m.ask(nil)
	m.agree()
}

// collision lets two sides connect to each other at once. Each request carries the rank
// of its side. The higher side refuses the request of the lower one; its own attempt
// succeeds.
func collision(r *rig) {
	low, high := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	lowListener, lowAddr := r.listen(low.adapter)
	highListener, highAddr := r.listen(high.adapter)
	connect := func(from *end, to rdma.Addr, rank byte) *call {
		r.ok("bind", from.conn.Bind(r.ctx(), rdma.Addr{}))
		return r.begin("connect", func(ctx context.Context) error {
			return from.conn.Connect(ctx, from.qp, to, rdma.ReadLimits{}, []byte{rank})
		})
	}
	request := func(l rdma.Listener, a rdma.Adapter, rank byte) rdma.Connector {
		c := r.connector(a)
		r.ok("connection request", l.ConnectionRequest(r.ctx(), c))
		r.hasPrivateData("request", c, []byte{rank})
		return c
	}
	fromLow, fromHigh := connect(low, highAddr, 1), connect(high, lowAddr, 2)
	refused := request(highListener, high.adapter, 1)
	taken := request(lowListener, low.adapter, 2)
	r.ok("reject", refused.Reject([]byte{2}))
	r.fails("connect of the lower side", fromLow.wait(), rdma.StatusConnectionRefused)
	r.hasPrivateData("rejection", low.conn, []byte{2})

	// The queue pair of the refused attempt serves the other attempt.
	low.receive(0, nil)
	low.conn = taken
	accept := r.begin("accept", func(ctx context.Context) error {
		return taken.Accept(ctx, low.qp, rdma.ReadLimits{}, nil)
	})
	r.ok("connect of the higher side", fromHigh.wait())
	r.ok("complete connect", high.conn.CompleteConnect(r.ctx()))
	r.ok("accept", accept.wait())
	high.post(rdma.Request{Op: rdma.OpSend})
	if res := low.received(); res.Status != rdma.StatusSuccess {
		r.Errorf("receive: %+v", res)
	}
	low.deliver(high)
}

// noListener checks that the connector can try again.
func noListener(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	for met, refused := 0, 0; refused < 2; {
		err := active.conn.Connect(r.ctx(), active.qp, r.refusedAddr(passive.adapter), rdma.ReadLimits{}, nil)
		if rdma.StatusOf(err) != rdma.StatusConnectionRefused && met < portRetries {
			met++
			continue
		}
		r.fails("connect to an address without a listener", err, rdma.StatusConnectionRefused)
		refused++
	}
	l, addr := r.listen(passive.adapter)
	passive.receive(0, nil)
	m := &meeting{r: r, active: active, passive: passive, listener: l, addr: addr}
	m.ask(nil)
	m.agree()
}

// closingListener checks that pending requests are refused and waiting calls end.
func closingListener(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	var l rdma.Listener
	var err error
	for met := 0; met <= portRetries && rdma.StatusOf(err) != rdma.StatusConnectionRefused; met++ {
		var addr rdma.Addr
		l, addr = r.listen(passive.adapter)
		connect := r.begin("connect", func(ctx context.Context) error {
			return active.conn.Connect(ctx, active.qp, addr, rdma.ReadLimits{}, nil)
		})
		r.closeNow("listener", l)
		err = connect.wait()
	}
	r.fails("connect to a closing listener", err, rdma.StatusConnectionRefused)
	err = l.ConnectionRequest(r.ctx(), passive.conn)
	r.fails("connection request of a closed listener", err, rdma.StatusCanceled)
}

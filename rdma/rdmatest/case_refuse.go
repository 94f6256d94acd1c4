package rdmatest

import (
	"context"

	"lwio/rdma"
)

var refuseCases = []Case{
	{Name: "reject/by-listener", Source: "[ND Connector.Reject]", run: rejectByListener},
	{Name: "reject/by-client", Source: "[ND NdConnReject]", run: rejectByClient},
	{Name: "reject/client-closes", Source: "[ND NdConnClose]", run: clientCloses},
	{Name: "reject/listener-side-closes", Source: "[ND NdConnClose]", run: passiveCloses},
	{Name: "reject/nobody-listens", Source: "[ND NdConnListenClosing]", run: nobodyListens},
	{Name: "reject/closing-listener", Source: "[ND NdConnListenClosing]", run: closingListener},
}

// rejectByListener: the refusal carries private data, and the same connector and
// queue pair can then be used for another attempt.
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
	// NetworkDirect's test wants the first, its text has the second.
	r.fails("accept", accept.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

func clientCloses(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	passive.receive(0, nil)
	accept := r.meet(active, passive, nil).accept(nil)
	r.closeNow("connector", active.conn)
	r.fails("accept", accept.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

// passiveCloses: a connector that closes without an answer refuses.
func passiveCloses(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	m := r.meet(active, passive, nil)
	r.closeNow("connector", passive.conn)
	r.fails("connect", m.connect.wait(), rdma.StatusConnectionRefused, rdma.StatusConnectionAborted)
}

// nobodyListens: the connector may try again.
func nobodyListens(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	addr := r.refusedAddr(passive.adapter)
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	for range 2 {
		err := active.conn.Connect(r.ctx(), active.qp, addr, rdma.ReadLimits{}, nil)
		r.fails("connect to nobody", err, rdma.StatusConnectionRefused)
	}
	l, addr := r.listen(passive.adapter)
	passive.receive(0, nil)
	m := &meeting{r: r, active: active, passive: passive, listener: l, addr: addr}
	m.ask(nil)
	m.agree()
}

// closingListener: requests that nobody took are refused, waiting calls end.
func closingListener(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	l, addr := r.listen(passive.adapter)
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	connect := r.begin("connect", func(ctx context.Context) error {
		return active.conn.Connect(ctx, active.qp, addr, rdma.ReadLimits{}, nil)
	})
	r.closeNow("listener", l)
	r.fails("connect to a closing listener", connect.wait(), rdma.StatusConnectionRefused)
	err := l.ConnectionRequest(r.ctx(), passive.conn)
	r.fails("connection request of a closed listener", err, rdma.StatusCanceled)
}

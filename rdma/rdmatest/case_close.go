package rdmatest

import (
	"context"
	"net"

	"lwio/rdma"
)

var closeCases = []Case{
	{Name: "close/twice", Source: "[ND IUnknown.Release]", run: closeTwice},
	{Name: "close/region-use", Source: "[ND MemoryRegion.Deregister]", run: useRegionAfterClose},
	{Name: "close/window-use", Source: "[ND MemoryWindow]", Needs: rdma.CapWindows, run: useWindowAfterClose},
	{Name: "close/queue-use", Source: "[ND CompletionQueue]", run: useQueueAfterClose},
	{Name: "close/queue-pair-use", Source: "[ND QueuePair]", run: useQueuePairAfterClose},
	{Name: "close/connector-use", Source: "[ND Connector]", run: useConnectorAfterClose},
	{Name: "close/listener-use", Source: "[ND Listener]", run: useListenerAfterClose},
	{Name: "close/adapter-use", Source: "[ND Adapter]", run: useAdapterAfterClose},
	{Name: "close/adapter-closes-all", Source: "[ND Adapter], [ND Overlapped.GetOverlappedResult]", run: adapterClosesAll},
	{Name: "close/closed-parts", Source: "[ND Adapter.CreateQueuePair], [ND Connector.Connect]", run: closedParts},
}

// closeTwice closes every object of a connection twice, not in the reverse order of
// creation.
func closeTwice(r *rig) {
	active, passive := r.pair(shape{})
	l, _ := r.listen(active.adapter)
	for _, e := range []*end{active, passive} {
		for range 2 {
			r.closeNow("connector", e.conn)
			r.closeNow("queue pair", e.qp)
			r.closeNow("completion queue", e.rcq)
			r.closeNow("completion queue", e.icq)
			r.closeNow("region", e.region)
		}
	}
	for range 2 {
		r.closeNow("listener", l)
		r.closeNow("adapter", active.adapter)
		r.closeNow("adapter", passive.adapter)
	}
}

func useRegionAfterClose(r *rig) {
	active, passive := r.pair(shape{})
	r.closeNow("region", active.region)
	_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: active.sge(0, 1)}})
	r.fails("send from a closed region", err, rdma.StatusAccessViolation)
	_, err = active.qp.PostReceive([]rdma.ReceiveRequest{{SGL: active.sge(0, 1)}})
	r.fails("receive into a closed region", err, rdma.StatusAccessViolation)
	active.region.RemoteAddr()
	active.deliver(passive)
}

// useWindowAfterClose checks that the close of a bound window ends its binding. The
// window can then be neither bound nor invalidated.
func useWindowAfterClose(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	w, unbound := passive.window(), passive.window()
	at := passive.bind(w, 0, 64, allowWrite)
	r.closeNow("window", w)
	r.closeNow("window that is not bound", unbound)
	for _, w := range []rdma.MemoryWindow{w, unbound} {
		w.RemoteAddr()
		for what, req := range map[string]rdma.Request{
			"bind of a closed window":       {Op: rdma.OpBind, Flags: allowWrite, Window: w, Region: passive.region, Length: 8},
			"invalidate of a closed window": {Op: rdma.OpInvalidate, Window: w},
		} {
			n, err := passive.qp.Post([]rdma.Request{req})
			if n != 0 || err == nil {
				r.Errorf("%s is taken", what)
			}
		}
	}
	active.deliver(passive)
	active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 64), Remote: at})
	r.ends("the side whose window is closed", passive.conn)
	if !zero(passive.mem) {
		r.Error("a write through a closed window arrives")
	}
}

// useQueueAfterClose checks that remaining results can be polled, and that the queue then
// reports that it is closed.
func useQueueAfterClose(r *rig) {
	e := r.end(r.adapter(), shape{})
	e.receive(1, nil)
	r.closeNow("queue pair", e.qp)
	r.closeNow("completion queue", e.rcq)
	if res := r.spin(e.rcq); res.ID != 1 || res.Status != rdma.StatusCanceled {
		r.Errorf("result: %+v", res)
	}
	var res [1]rdma.Result
	n, err := e.rcq.Poll(res[:])
	if n != 0 {
		r.Errorf("poll of a closed queue: %d results", n)
	}
	r.is("poll of a closed queue", err, net.ErrClosed)
	for _, kind := range []rdma.NotifyKind{rdma.NotifyErrors, rdma.NotifyAny, rdma.NotifySolicited} {
		r.fails("notify of a closed queue", e.rcq.Wait(r.ctx(), kind), rdma.StatusCanceled)
	}
	if err := e.rcq.Resize(8); err == nil {
		r.Error("a closed queue is resized")
	}
}

func useQueuePairAfterClose(r *rig) {
	unconnected := r.end(r.adapter(), shape{})
	active, _ := r.pair(shape{})
	for _, e := range []*end{unconnected, active} {
		r.closeNow("queue pair", e.qp)
		n, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}})
		if n != 0 {
			r.Errorf("post: took %d", n)
		}
		r.is("post on a closed queue pair", err, net.ErrClosed)
		n, err = e.qp.PostReceive([]rdma.ReceiveRequest{{}})
		if n != 0 {
			r.Errorf("post receive: took %d", n)
		}
		r.fails("post receive on a closed queue pair", err, rdma.StatusInvalidHandle)
		if err := e.qp.Flush(); err != nil {
			r.is("flush of a closed queue pair", err, net.ErrClosed)
		}
	}
}

func useConnectorAfterClose(r *rig) {
	e := r.end(r.adapter(), shape{})
	l, addr := r.listen(e.adapter)
	r.closeNow("connector", e.conn)
	for what, err := range map[string]error{
		"bind":               e.conn.Bind(r.ctx(), rdma.Addr{}),
		"connect":            e.conn.Connect(r.ctx(), e.qp, addr, rdma.ReadLimits{}, nil),
		"complete connect":   e.conn.CompleteConnect(r.ctx()),
		"accept":             e.conn.Accept(r.ctx(), e.qp, rdma.ReadLimits{}, nil),
		"reject":             e.conn.Reject(nil),
		"disconnect":         e.conn.Disconnect(r.ctx()),
		"connection request": l.ConnectionRequest(r.ctx(), e.conn),
	} {
		r.is(what+" on a closed connector", err, net.ErrClosed)
	}
	if _, err := e.conn.LocalAddr(); err == nil {
		r.Error("a closed connector has a local address")
	}
	if _, err := e.conn.PeerAddr(); err == nil {
		r.Error("a closed connector has a peer")
	}
}

func useListenerAfterClose(r *rig) {
	a := r.adapter()
	l, addr := r.listen(a)
	r.closeNow("listener", l)
	r.fails("connection request of a closed listener", l.ConnectionRequest(r.ctx(), r.connector(a)), rdma.StatusCanceled)
	if err := l.Bind(r.ctx(), r.cfg.Addr); err == nil {
		r.Error("a closed listener binds")
	}
	if err := l.Listen(0); err == nil {
		r.Error("a closed listener listens")
	}
	_, err := l.LocalAddr()
	r.fails("address of a closed listener", err, rdma.StatusInvalidDeviceState)
	again, err := rdma.Listen(r.ctx(), a, addr, 0)
	for met := 0; met < portRetries && rdma.StatusOf(err) == rdma.StatusSharingViolation; met++ {
		again, err = rdma.Listen(r.ctx(), a, r.refusedAddr(a), 0)
	}
	r.ok("listen where a listener was", err)
	r.closeLater("listener", again)
}

func useAdapterAfterClose(r *rig) {
	a := r.adapter()
	info := a.Info()
	e := r.end(a, shape{})
	r.closeNow("adapter", a)
	if a.Info() != info {
		r.Error("the information changes with Close")
	}
	ctx := r.ctx()
	calls := map[string]func() error{
		"create completion queue": func() error { _, err := a.CreateCompletionQueue(1); return err },
		"register memory":         func() error { _, err := a.RegisterMemory(ctx, make([]byte, 1), 0); return err },
		"create queue pair":       func() error { _, err := a.CreateQueuePair(e.config()); return err },
		"create connector":        func() error { _, err := a.CreateConnector(); return err },
		"create listener":         func() error { _, err := a.CreateListener(); return err },
		"alloc":                   func() error { _, err := a.Alloc(ctx, 1); return err },
	}
	if info.Caps.Has(rdma.CapWindows) {
		calls["create memory window"] = func() error { _, err := a.CreateMemoryWindow(); return err }
	}
	if info.Caps.Has(rdma.CapSharedReceive) {
		calls["create shared receive queue"] = func() error {
			_, err := a.CreateSharedReceiveQueue(rdma.SharedReceiveQueueConfig{Depth: 1, MaxSGE: 1})
			return err
		}
	}
	if info.Caps.Has(rdma.CapFileSource) {
		f, _ := r.file(1)
		calls["register file"] = func() error { _, err := a.RegisterFile(ctx, f); return err }
	}
	for what, f := range calls {
		r.is(what+" on a closed adapter", f(), net.ErrClosed)
	}
}

// adapterClosesAll closes an adapter with a connection, a listener and waiting calls.
func adapterClosesAll(r *rig) {
	active, passive := r.pair(shape{})
	passive.receive(1, nil)
	l, _ := r.listen(active.adapter)
	spare := r.connector(active.adapter)
	notify := r.notify(active.rcq, rdma.NotifyErrors)
	request := r.begin("connection request", func(ctx context.Context) error { return l.ConnectionRequest(ctx, spare) })
	mem, err := active.adapter.Alloc(r.ctx(), 1)
	r.ok("alloc", err)

	r.closeNow("adapter", active.adapter)
	r.fails("notify", notify.wait(), rdma.StatusCanceled)
	r.fails("connection request", request.wait(), rdma.StatusCanceled)
	r.ends("the adapter's side", active.conn)
	r.ends("the other side", passive.conn)
	passive.flushed(passive.rcq, 1)
	_, err = active.qp.Post([]rdma.Request{{Op: rdma.OpSend}})
	r.is("post", err, net.ErrClosed)
	_, err = active.qp.PostReceive([]rdma.ReceiveRequest{{}})
	r.is("post receive", err, net.ErrClosed)
	r.closeNow("memory", mem)
}

// closedParts checks that closed objects are refused as parts of other objects.
func closedParts(r *rig) {
	e, peer := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	_, addr := r.listen(peer.adapter)
	r.closeNow("queue pair", e.qp)
	r.ok("bind", e.conn.Bind(r.ctx(), rdma.Addr{}))
	if err := e.conn.Connect(r.ctx(), e.qp, addr, rdma.ReadLimits{}, nil); err == nil {
		r.Error("a closed queue pair is connected")
	}
	for n, close := range map[int]rdma.CompletionQueue{2: e.rcq, 3: e.icq} {
		r.closeNow("completion queue", close)
		_, err := e.adapter.CreateQueuePair(e.config())
		if err == nil {
			r.Errorf("a queue pair is made with a closed queue, parameter %d", n)
		}
	}
}

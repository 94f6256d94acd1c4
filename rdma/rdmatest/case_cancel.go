package rdmatest

import (
	"context"

	"lwio/rdma"
)

var cancelCases = []Case{
	{Name: "cancel/connect", Source: "[ND Overlapped.CancelOverlappedRequests], [ND Connector.Connect]", run: cancelConnect},
	{Name: "cancel/accept", Source: "[ND Overlapped.CancelOverlappedRequests], [ND Connector.Accept]", run: cancelAccept},
	{Name: "cancel/connection-request", Source: "[ND Overlapped.CancelOverlappedRequests], [ND Listener.GetConnectionRequest]", run: cancelConnectionRequest},
	{Name: "cancel/notify", Source: "[ND ndcq]", run: cancelNotify},
	{Name: "cancel/ended-context", Source: "[ND Overlapped.CancelOverlappedRequests]", run: endedContext},
}

// cancelConnect checks that a canceled attempt leaves the queue pair as it was. It
// repeats the attempt, to cancel at different moments.
func cancelConnect(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	for range 20 {
		m := r.meet(active, passive, nil)
		m.connect.canceled()
		r.closeNow("connector", active.conn)
		r.closeNow("connector", passive.conn)
		active.conn, passive.conn = r.connector(active.adapter), r.connector(passive.adapter)
	}
	r.join(active, passive)
	active.deliver(passive)
}

func cancelAccept(r *rig) {
	for range 20 {
		if r.Failed() {
			return
		}
		active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
		passive.receive(0, nil)
		r.meet(active, passive, nil).accept(nil).canceled()
	}
}

// cancelConnectionRequest checks that the listener continues to work, also for the same
// connector.
func cancelConnectionRequest(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	l, addr := r.listen(passive.adapter)
	r.begin("connection request", func(ctx context.Context) error {
		return l.ConnectionRequest(ctx, passive.conn)
	}).canceled()
	r.ok("bind", active.conn.Bind(r.ctx(), rdma.Addr{}))
	passive.receive(0, nil)
	m := &meeting{r: r, active: active, passive: passive, listener: l, addr: addr}
	m.ask(nil)
	m.agree()
}

// cancelNotify cancels several waits on one queue, in order and in reverse. Each wait
// must end alone, and the queue must then have none.
func cancelNotify(r *rig) {
	e := r.end(r.adapter(), shape{})
	const rounds, n = 20, 3
	for round := range rounds {
		reverse := round%2 == 1
		var calls []*call
		for range n {
			calls = append(calls, r.notify(e.rcq, rdma.NotifyAny))
		}
		for i := range n {
			if reverse {
				i = n - 1 - i
			}
			calls[i].canceled()
			for j, c := range calls {
				select {
				case <-c.done:
					if later := (j > i) != reverse && j != i; later {
						r.Errorf("canceling wait %d ended wait %d: %v", i, j, c.err)
					}
				default:
				}
			}
		}
	}
	e.receive(1, nil)
	r.ok("flush", e.qp.Flush())
	r.ok("notify after the canceled waits", e.rcq.Wait(r.ctx(), rdma.NotifyAny))
	if res := r.next(e.rcq); res.Status != rdma.StatusCanceled || res.ID != 1 {
		r.Errorf("flushed receive: %+v", res)
	}
}

// endedContext checks that calls that would wait return at once if the context has ended.
func endedContext(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	l, addr := r.listen(passive.adapter)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, err := range map[string]error{
		"notify":             active.rcq.Wait(ctx, rdma.NotifyAny),
		"connection request": l.ConnectionRequest(ctx, passive.conn),
		"connect":            active.conn.Connect(ctx, active.qp, addr, rdma.ReadLimits{}, nil),
	} {
		r.is(what, err, context.Canceled)
		r.is(what, err, rdma.StatusCanceled)
	}
}

package rdmatest

import (
	"context"
	"errors"
	"runtime"

	"lwio/rdma"
)

var trimIdleCases = []Case{
	{Name: "trim-idle/messages", Source: "[ND QueuePair.Receive]", Needs: rdma.CapPageable, run: trimIdleBesideMessages},
	{Name: "trim-idle/unconnected", Source: "[ND QueuePair.Receive]", Needs: rdma.CapPageable, run: trimIdleUnconnected},
}

// trimIdleBesideMessages trims both sides continuously while messages of all sizes go
// both ways. Each message must arrive unchanged.
func trimIdleBesideMessages(r *rig) {
	const depth, size, rounds = 8, 40_000, 60
	active, passive := r.pair(shape{depth: depth, memory: 2 * depth * size})
	ends := []*end{active, passive}
	var calls []*call
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for _, e := range ends {
		calls = append(calls, r.beginMany("trim", func(until context.Context) error {
			for ctx.Err() == nil && until.Err() == nil {
				e.qp.TrimIdle()
				runtime.Gosched()
			}
			return nil
		}))
	}
	half := depth * size
	for k := range rounds {
		for i, from := range ends {
			to := ends[1-i]
			fill(from.mem[:half])
			n := 1 + k%depth
			for slot := range n {
				to.receive(uint64(slot), to.sge(half+slot*size, size))
			}
			length := 1 + k*7919%size
			for slot := range n {
				from.post(rdma.Request{Op: rdma.OpSend, SGL: from.sge(slot*size, length)})
			}
			for slot := range n {
				res := to.received()
				if res.Status != rdma.StatusSuccess || res.Bytes != length || res.ID != uint64(slot) {
					r.Fatalf("message %d of round %d: %+v", slot, k, res)
				}
				if !same(to.mem[half+slot*size:][:length], from.mem[slot*size:][:length]) {
					r.Fatalf("message %d of round %d, of %d bytes, arrives changed", slot, k, length)
				}
				if res := from.sent(); res.Status != rdma.StatusSuccess {
					r.Fatalf("send: %+v", res)
				}
			}
		}
	}
	stop()
	for _, c := range calls {
		r.ok("trim", c.wait())
	}
}

// trimIdleUnconnected checks that TrimIdle has no effect before the connection and after
// it.
func trimIdleUnconnected(r *rig) {
	e := r.end(r.adapter(), shape{})
	e.receive(1, e.sge(0, 100))
	e.qp.TrimIdle()
	r.empty("receives", e.rcq)
	r.ok("close", e.qp.Close())
	e.qp.TrimIdle()
	if res := e.received(); !errors.Is(res.Status, rdma.StatusCanceled) {
		r.Errorf("receive: %+v", res)
	}
}

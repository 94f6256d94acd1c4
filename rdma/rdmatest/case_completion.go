package rdmatest

import (
	"math"

	"lwio/rdma"
)

var completionCases = []Case{
	{Name: "cq/overrun", Source: "[ND CompletionQueue.Notify]", run: overrun},
	{Name: "cq/poll-batches", Source: "[ND CompletionQueue.GetResults]", run: pollBatches},
	{Name: "cq/shared", Source: "[ND Adapter.CreateQueuePair]", run: sharedQueue},
	{Name: "cq/resize", Source: "[ND CompletionQueue.Resize]", Needs: rdma.CapCQResize, run: resize},
}

// overrun checks that a queue that overruns ends, together with its queue pairs. Other
// queue pairs continue to work. [RFC 5042 §6.4.3.2]
func overrun(r *rig) {
	const depth = 512
	active, passive := r.pair(shape{depth: depth, cq: 1})
	bystander, peer := r.end(active.adapter, shape{}), r.end(passive.adapter, shape{})
	r.join(bystander, peer)
	n := r.notify(passive.rcq, rdma.NotifyErrors)
	for range depth {
		passive.receive(0, nil)
	}
	for range depth {
		if _, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend}}); err != nil {
			r.fails("send to a peer that is lost", err, rdma.StatusConnectionInvalid)
			break
		}
	}
	r.fails("notify for errors", n.wait(), rdma.StatusBufferOverflow)
	r.fails("notify", passive.rcq.Wait(r.ctx(), rdma.NotifyAny), rdma.StatusBufferOverflow)
	var res [16]rdma.Result
	taken := 0
	r.eventually("poll reports that the queue has overrun", func() bool {
		n, err := passive.rcq.Poll(res[:])
		taken += n
		return rdma.StatusOf(err) == rdma.StatusBufferOverflow
	})
	if taken >= depth {
		r.Errorf("%d results in a queue that has overrun", taken)
	}
	r.ends("the side of the queue", passive.conn)
	r.ends("the other side", active.conn)
	bystander.deliver(peer)
	peer.deliver(bystander)
}

// pollBatches checks that the oldest results come first, and that a short count means an
// empty queue.
func pollBatches(r *rig) {
	e := r.end(r.adapter(), shape{depth: 10})
	for i := range 10 {
		e.receive(uint64(i), nil)
	}
	r.ok("flush", e.qp.Flush())
	next := uint64(0)
	for next < 10 {
		var res [3]rdma.Result
		n, err := e.rcq.Poll(res[:])
		r.ok("poll", err)
		for _, got := range res[:n] {
			if got.ID != next {
				r.Fatalf("result %d has ID %d", next, got.ID)
			}
			next++
		}
		if n < len(res) && next < 10 {
			r.ok("notify", e.rcq.Wait(r.ctx(), rdma.NotifyAny))
		}
	}
	if n, err := e.rcq.Poll(nil); n != 0 || err != nil {
		r.Errorf("poll into an empty slice: %d, %v", n, err)
	}
}

// sharedQueue uses one completion queue for both queues of two queue pairs.
func sharedQueue(r *rig) {
	a := r.adapter()
	cq := r.queue(a, 64)
	ends := [2]*end{}
	for i := range ends {
		e := r.end(a, shape{})
		e.rcq, e.icq, e.context = cq, cq, uint64(i+1)
		qp, err := a.CreateQueuePair(e.config())
		r.ok("create queue pair", err)
		r.closeLater("queue pair", qp)
		e.qp = qp
		ends[i] = e
	}
	peers := [2]*end{r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})}
	for i, e := range ends {
		e.receive(20, nil)
		peers[i].receive(0, nil)
		r.meet(e, peers[i], nil).agree()
		e.post(rdma.Request{Op: rdma.OpSend, ID: 10})
		peers[i].received()
		peers[i].post(rdma.Request{Op: rdma.OpSend})
	}
	type key struct{ pair, id uint64 }
	got := make(map[key]rdma.Op)
	for range 4 {
		res := r.next(cq)
		if res.Status != rdma.StatusSuccess {
			r.Errorf("result %+v", res)
		}
		got[key{res.QueuePairContext, res.ID}] = res.Op
	}
	for i := range ends {
		pair := uint64(i + 1)
		if got[key{pair, 10}] != rdma.OpSend || got[key{pair, 20}] != rdma.OpReceive || len(got) != 4 {
			r.Errorf("results of queue pair %d: %v", pair, got)
		}
	}
}

func resize(r *rig) {
	e := r.end(r.adapter(), shape{depth: 16, cq: 16})
	most := e.adapter.Info().MaxCompletionQueueDepth
	for _, depth := range []int{most + 1, math.MaxInt, 0, -1} {
		r.fails("resize to a wrong depth", e.rcq.Resize(depth), rdma.StatusInvalidParameter)
	}
	r.ok("grow", e.rcq.Resize(most))
	r.ok("shrink", e.rcq.Resize(16))
	for i := range 16 {
		e.receive(uint64(i), nil)
	}
	// After the close of a queue pair all of its results are in the queue.
	r.closeNow("queue pair", e.qp)
	r.fails("shrink below the queued results", e.rcq.Resize(15), rdma.StatusBufferOverflow)
	for i := range 8 {
		if res := e.received(); res.ID != uint64(i) {
			r.Errorf("result %d: %+v", i, res)
		}
	}
	r.ok("shrink to the queued results", e.rcq.Resize(8))
	r.ok("grow with results queued", e.rcq.Resize(64))
	for i := 8; i < 16; i++ {
		if res := e.received(); res.ID != uint64(i) || res.Status != rdma.StatusCanceled {
			r.Errorf("result %d after all resizing: %+v", i, res)
		}
	}
	r.empty("completion queue", e.rcq)
}

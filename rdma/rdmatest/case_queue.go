package rdmatest

import (
	"errors"

	"lwio/rdma"
)

var queueCases = []Case{
	{Name: "queue/receive-full", Source: "[ND QueuePair.Receive]", run: receiveFull},
	{Name: "queue/initiator-full", Source: "[ND QueuePair.Send]", run: initiatorFull},
	{Name: "queue/too-many-entries", Source: "[ND QueuePair.Send], [ND QueuePair.Receive], [ND QueuePair.Write]", run: tooManyEntries},
	{Name: "queue/too-many-bytes", Source: "[ND ND2_ADAPTER_INFO MaxTransferLength]", run: tooManyBytes},
	{Name: "queue/flags", Source: "[ND Op flags]", run: wrongFlags},
	{Name: "queue/unsupported-requests", Source: "[ND Status codes]", run: unsupportedRequests},
	{Name: "queue/partial-post", Source: "[ND QueuePair.Send]", run: partialPost},
	{Name: "queue/flush-unconnected", Source: "[ND NdReceiveFlushQP]", run: flushUnconnected},
	{Name: "queue/flush-is-local", Source: "[ND QueuePair.Flush]", run: flushIsLocal},
}

func receiveFull(r *rig) {
	e := r.end(r.adapter(), shape{depth: 5})
	reqs := make([]rdma.ReceiveRequest, 7)
	for i := range reqs {
		reqs[i] = rdma.ReceiveRequest{ID: uint64(i)}
	}
	n, err := e.qp.PostReceive(reqs)
	if n != 5 {
		r.Errorf("a queue of depth 5 takes %d receives", n)
	}
	r.fails("receive above the depth", err, rdma.StatusNoMoreEntries)
	r.ok("flush", e.qp.Flush())
	for i := range 5 {
		if res := e.received(); res.ID != uint64(i) || res.Status != rdma.StatusCanceled {
			r.Errorf("flushed receive %d: %+v", i, res)
		}
	}
	e.receive(9, nil)
}

// initiatorFull checks that silent requests keep their slots until a later result.
func initiatorFull(r *rig) {
	active, passive := r.pair(shape{depth: 5})
	reqs := make([]rdma.Request, 7)
	for i := range reqs {
		reqs[i] = rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess}
	}
	reqs[4].Flags = 0
	took := 0
	for took < len(reqs) {
		n, err := active.qp.Post(reqs[took:])
		took += n
		if err == nil {
			continue
		}
		r.fails("post above the depth", err, rdma.StatusNoMoreEntries)
		if took != 5 {
			r.Fatalf("a queue of depth 5 is full after %d requests", took)
		}
		if res := active.sent(); res.Status != rdma.StatusSuccess {
			r.Fatalf("write: %+v", res)
		}
	}
	active.deliver(passive)
}

func tooManyEntries(r *rig) {
	active, passive := r.pair(shape{sge: 2})
	var sgl []rdma.SGE
	for i := range 3 {
		sgl = append(sgl, rdma.SGE{Region: active.region, Offset: i, Length: 1})
	}
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		n, err := active.qp.Post([]rdma.Request{{Op: op, SGL: sgl, Remote: passive.at(0)}})
		if n != 0 {
			r.Errorf("%v: took %d", op, n)
		}
		r.fails(op.String()+" of 3 pieces where 2 are allowed", err, rdma.StatusDataOverrun)
	}
	n, err := active.qp.PostReceive([]rdma.ReceiveRequest{{SGL: sgl}})
	if n != 0 {
		r.Errorf("receive: took %d", n)
	}
	r.fails("receive of 3 pieces where 2 are allowed", err, rdma.StatusDataOverrun)
	active.deliver(passive)
}

// tooManyBytes needs no memory of the forbidden size, because the pieces of a request may
// name the same bytes.
func tooManyBytes(r *rig) {
	info := r.adapter().Info()
	active, passive := r.pair(shape{sge: min(info.MaxInitiatorSGE, info.MaxReceiveSGE)})
	size := int64(info.MaxTransferLength)/int64(active.shape.sge) + 1
	if size > 256<<20 || uint64(size) > info.MaxRegistrationSize {
		r.Log("no request can be that large")
		return
	}
	mem, err := active.adapter.Alloc(r.ctx(), int(size))
	r.ok("alloc", err)
	r.closeLater("memory", mem)
	region := r.region(active.adapter, mem.Bytes(), rdma.AccessLocalWrite)
	var sgl []rdma.SGE
	for range active.shape.sge {
		sgl = append(sgl, rdma.SGE{Region: region, Length: int(size)})
	}
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		_, err := active.qp.Post([]rdma.Request{{Op: op, SGL: sgl, Remote: passive.at(0)}})
		r.fails(op.String()+" above MaxTransferLength", err, rdma.StatusBufferOverflow)
	}
	_, err = active.qp.PostReceive([]rdma.ReceiveRequest{{SGL: sgl}})
	r.fails("receive above MaxTransferLength", err, rdma.StatusBufferOverflow)
	active.deliver(passive)
}

func wrongFlags(r *rig) {
	active, passive := r.pair(shape{})
	for _, c := range []struct {
		op    rdma.Op
		flags rdma.Flags
		n     int
	}{
		{rdma.OpSend, rdma.FlagAllowRead, 4},
		{rdma.OpSend, rdma.FlagAllowWrite, 4},
		{rdma.OpSend, rdma.FlagImmediate, 4},
		{rdma.OpSend, rdma.FlagOnlyIfCached, 4},
		{rdma.OpSend, 1 << 31, 4},
		{rdma.OpWrite, rdma.FlagSolicitEvent, 6},
		{rdma.OpWrite, rdma.FlagAllowRead, 6},
		{rdma.OpWrite, 1 << 31, 6},
	} {
		n, err := active.qp.Post([]rdma.Request{{Op: c.op, Flags: c.flags, SGL: active.sge(0, 1), Remote: passive.at(0)}})
		if got := rdma.StatusOf(err); n != 0 || got != rdma.StatusInvalidParameterN(c.n) {
			r.Errorf("%v with flags %#x: took %d, %v, want %v", c.op, uint32(c.flags), n, got, rdma.StatusInvalidParameterN(c.n))
		}
	}
	active.deliver(passive)
}

func unsupportedRequests(r *rig) {
	active, passive := r.pair(shape{})
	caps := active.adapter.Info().Caps
	for _, c := range []struct {
		cap rdma.Caps
		req rdma.Request
	}{
		{rdma.CapRead, rdma.Request{Op: rdma.OpRead, SGL: active.sge(0, 1), Remote: passive.at(0)}},
		{rdma.CapWindows, rdma.Request{Op: rdma.OpBind, Flags: rdma.FlagAllowWrite, Region: active.region, Length: 1}},
		{rdma.CapWindows, rdma.Request{Op: rdma.OpInvalidate}},
		{rdma.CapImmediate, rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagImmediate}},
		{rdma.CapFileSource, rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached}},
		{rdma.CapAtomics, rdma.Request{Op: rdma.OpFetchAdd, SGL: active.sge(0, 8), Remote: passive.at(0)}},
		{rdma.CapAtomics, rdma.Request{Op: rdma.OpCompareSwap, SGL: active.sge(0, 8), Remote: passive.at(0)}},
	} {
		if caps.Has(c.cap) {
			continue
		}
		n, err := active.qp.Post([]rdma.Request{c.req})
		if n != 0 || !errors.Is(err, errors.ErrUnsupported) {
			r.Errorf("%v with flags %#x: took %d, %v", c.req.Op, uint32(c.req.Flags), n, err)
		}
	}
	for _, op := range []rdma.Op{rdma.OpReceive, rdma.OpCompareSwap + 1, 255} {
		if n, err := active.qp.Post([]rdma.Request{{Op: op}}); n != 0 || err == nil {
			r.Errorf("a request of kind %d: took %d, %v", op, n, err)
		}
	}
	active.deliver(passive)
}

// partialPost checks that requests before the invalid one are carried out, and none after
// it.
func partialPost(r *rig) {
	active, passive := r.pair(shape{})
	for i := range 3 {
		passive.receive(uint64(i), passive.sge(0, 8))
	}
	long := rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, len(active.mem)+1)}
	short := rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 8)}
	n, err := active.qp.Post([]rdma.Request{short, short, long, short})
	if n != 2 {
		r.Errorf("took %d, want 2", n)
	}
	r.fails("post", err, rdma.StatusAccessViolation)
	for i := range 2 {
		if res := passive.received(); res.ID != uint64(i) || res.Bytes != 8 {
			r.Errorf("receive: %+v", res)
		}
	}
	active.post(rdma.Request{Op: rdma.OpSend})
	if res := passive.received(); res.ID != 2 || res.Bytes != 0 {
		r.Errorf("the request after the wrong one was sent: %+v", res)
	}
	n, err = active.qp.PostReceive([]rdma.ReceiveRequest{{ID: 1}, {SGL: active.sge(-1, 1)}, {ID: 3}})
	if n != 1 {
		r.Errorf("took %d receives, want 1", n)
	}
	r.fails("post receive", err, rdma.StatusAccessViolation)
	if n, err := active.qp.Post(nil); n != 0 || err != nil {
		r.Errorf("empty post: %d, %v", n, err)
	}
	if n, err := active.qp.PostReceive(nil); n != 0 || err != nil {
		r.Errorf("empty post of receives: %d, %v", n, err)
	}
}

// flushUnconnected checks that a flush makes one notification and cancels both receives.
func flushUnconnected(r *rig) {
	e := r.end(r.adapter(), shape{})
	e.receive(1, e.sge(0, 8))
	e.receive(2, e.sge(8, 8))
	n := r.notify(e.rcq, rdma.NotifyAny)
	r.ok("flush", e.qp.Flush())
	r.ok("notify", n.wait())
	for id := uint64(1); id <= 2; id++ {
		want := rdma.Result{Status: rdma.StatusCanceled, Op: rdma.OpReceive, QueuePairContext: e.context, ID: id}
		got := e.received()
		got.Bytes = 0
		if got != want {
			r.Errorf("flushed receive: %+v, want %+v", got, want)
		}
	}
	r.empty("receives", e.rcq)
	r.ok("flush of an empty queue", e.qp.Flush())
	r.empty("receives", e.rcq)
}

// flushIsLocal checks that a flush leaves another queue pair of the same completion queue
// unchanged.
func flushIsLocal(r *rig) {
	active, passive := r.end(r.adapter(), shape{cq: 64}), r.end(r.adapter(), shape{})
	cfg := active.config()
	cfg.Context = 1
	other, err := active.adapter.CreateQueuePair(cfg)
	r.ok("create queue pair", err)
	r.closeLater("queue pair", other)
	r.join(active, passive)
	active.receive(5, active.sge(0, 8))
	if _, err := other.PostReceive([]rdma.ReceiveRequest{{ID: 6}}); err != nil {
		r.Fatal(err)
	}
	r.ok("flush", other.Flush())
	if res := active.received(); res.QueuePairContext != 1 || res.ID != 6 || res.Status != rdma.StatusCanceled {
		r.Errorf("flushed receive: %+v", res)
	}
	passive.post(rdma.Request{Op: rdma.OpSend, SGL: passive.sge(0, 8)})
	if res := active.received(); res.QueuePairContext != active.context || res.ID != 5 || res.Status != rdma.StatusSuccess {
		r.Errorf("receive of the other queue pair: %+v", res)
	}
}

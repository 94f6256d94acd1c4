package rdmatest

import (
	"context"
	"math/rand/v2"
	"time"

	"lwio/rdma"
)

// shape has the sizes of an end's parts. Zero fields have defaults.
type shape struct {
	depth       int                     // of the receive and of the initiator queue; default 16
	cq          int                     // depth of the receive completion queue; default depth + 8
	sge         int                     // entries of one request; default 4
	inline      int                     // bytes of one inline request; default 32
	memory      int                     // bytes of registered memory; default 64 KiB
	access      rdma.Access             // rights of that memory; default remote write
	shared      rdma.SharedReceiveQueue // replaces the receive queue of the queue pair
	reads       int                     // reads in progress, in each direction; default 8
	icq         int                     // depth of the other completion queue; default depth + 8
	byReference bool                    // receives accept data by reference
}

func (s shape) orDefault(info rdma.AdapterInfo) shape {
	if s.depth == 0 {
		s.depth = 16
	}
	if s.cq == 0 {
		s.cq = s.depth + 8
	}
	if s.icq == 0 {
		s.icq = s.depth + 8
	}
	if s.sge == 0 {
		s.sge = min(4, info.MaxInitiatorSGE, info.MaxReceiveSGE)
	}
	if s.inline == 0 {
		s.inline = min(32, info.MaxInlineDataSize)
	}
	if s.memory == 0 {
		s.memory = 64 << 10
	}
	if s.reads == 0 {
		s.reads = 8
	}
	if s.access == 0 {
		s.access = rdma.AccessRemoteWrite
	}
	return s
}

// end is one side of a connection, with its own queues and memory.
type end struct {
	r       *rig
	shape   shape
	adapter rdma.Adapter
	rcq     rdma.CompletionQueue // receives
	icq     rdma.CompletionQueue // other results
	mem     []byte
	region  rdma.MemoryRegion
	qp      rdma.QueuePair
	conn    rdma.Connector
	context uint64
}

// end makes an end that is not connected.
func (r *rig) end(a rdma.Adapter, s shape) *end {
	r.Helper()
	s = s.orDefault(a.Info())
	e := &end{r: r, shape: s, adapter: a, context: rand.Uint64(), mem: make([]byte, s.memory)}
	e.region = r.region(a, e.mem, s.access)
	e.rcq = r.queue(a, s.cq)
	e.icq = r.queue(a, s.icq)
	qp, err := a.CreateQueuePair(e.config())
	r.ok("create queue pair", err)
	r.closeLater("queue pair", qp)
	e.qp = qp
	e.conn = r.connector(a)
	return e
}

// limits returns the read limits that the end asks for.
func (e *end) limits() rdma.ReadLimits {
	return rdma.ReadLimits{Inbound: e.shape.reads, Outbound: e.shape.reads}
}

// config returns the configuration of the end's queue pair.
func (e *end) config() rdma.QueuePairConfig {
	s := e.shape
	return rdma.QueuePairConfig{
		ReceiveCQ: e.rcq, InitiatorCQ: e.icq, SharedReceive: s.shared, Context: e.context,
		ReceiveDepth: s.depth, InitiatorDepth: s.depth,
		MaxReceiveSGE: s.sge, MaxInitiatorSGE: s.sge, InlineSize: s.inline, AcceptByReference: s.byReference,
	}
}

// pair makes two ends, each on its own adapter, and connects them.
func (r *rig) pair(s shape) (active, passive *end) {
	r.Helper()
	active, passive = r.end(r.adapter(), s), r.end(r.adapter(), s)
	r.join(active, passive)
	return active, passive
}

// join connects two ends, and sends the first message of the active end. The passive end
// may then send.
func (r *rig) join(active, passive *end) {
	r.Helper()
	passive.receive(0, nil)
	r.meet(active, passive, nil).agree()
	active.post(rdma.Request{Op: rdma.OpSend})
	if res := active.sent(); res.Status != rdma.StatusSuccess {
		r.Fatalf("first send: %v", res.Status)
	}
	if res := passive.received(); res.Status != rdma.StatusSuccess || res.Bytes != 0 {
		r.Fatalf("first receive: %+v", res)
	}
}

// sge names n bytes of the end's memory.
func (e *end) sge(off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: e.region, Offset: off, Length: n}}
}

// at returns the remote address of the byte at off of the end's memory.
func (e *end) at(off int) rdma.RemoteAddr {
	a := e.region.RemoteAddr()
	a.Addr += uint64(off)
	return a
}

// receive posts one receive.
func (e *end) receive(id uint64, sgl []rdma.SGE) {
	e.r.Helper()
	post := e.qp.PostReceive
	if e.shape.shared != nil {
		post = e.shape.shared.PostReceive
	}
	if n, err := post([]rdma.ReceiveRequest{{ID: id, SGL: sgl}}); n != 1 || err != nil {
		e.r.Fatalf("post receive: took %d, %v", n, err)
	}
}

// post posts requests. The queue must have room for them.
func (e *end) post(reqs ...rdma.Request) {
	e.r.Helper()
	if n, err := e.qp.Post(reqs); n != len(reqs) || err != nil {
		e.r.Fatalf("post %v: took %d of %d, %v", reqs[0].Op, n, len(reqs), err)
	}
}

// received takes the next result of a receive, sent the next result of another request.
func (e *end) received() rdma.Result { e.r.Helper(); return e.r.next(e.rcq) }
func (e *end) sent() rdma.Result     { e.r.Helper(); return e.r.next(e.icq) }

// deliver sends an empty message and waits until the peer has received it. All earlier
// requests are then placed. The peer posts the receive.
func (e *end) deliver(peer *end) {
	e.r.Helper()
	peer.receive(0, nil)
	e.post(rdma.Request{Op: rdma.OpSend, ID: delivered})
	for {
		res := e.sent()
		if res.Status != rdma.StatusSuccess {
			e.r.Fatalf("%v: %v", res.Op, res.Status)
		}
		if res.ID == delivered {
			break
		}
	}
	if res := peer.received(); res.Status != rdma.StatusSuccess {
		e.r.Fatalf("receive: %v", res.Status)
	}
}

// delivered is the ID of the sends of deliver.
const delivered = 0xde11_0e4e_d000_0000

// next takes one result from a queue.
func (r *rig) next(cq rdma.CompletionQueue) rdma.Result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), r.patience())
	defer cancel()
	var res [1]rdma.Result
	for {
		n, err := cq.Poll(res[:])
		if n == 1 {
			return res[0]
		}
		r.ok("poll", err)
		r.ok("wait for a result", cq.Wait(ctx, rdma.NotifyAny))
	}
}

// empty records a failure if a queue has a result.
func (r *rig) empty(what string, cq rdma.CompletionQueue) {
	r.Helper()
	var res [1]rdma.Result
	n, err := cq.Poll(res[:])
	r.ok("poll "+what, err)
	if n != 0 {
		r.Errorf("%s: an unexpected result %+v", what, res[0])
	}
}

// spin polls a queue without waiting until a result comes.
func (r *rig) spin(cq rdma.CompletionQueue) rdma.Result {
	r.Helper()
	var res [1]rdma.Result
	for end := time.Now().Add(r.patience()); ; {
		n, err := cq.Poll(res[:])
		r.ok("poll", err)
		if n == 1 {
			return res[0]
		}
		if time.Now().After(end) {
			r.Fatal("poll: no result comes")
		}
		time.Sleep(50 * time.Microsecond)
	}
}

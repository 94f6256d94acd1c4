package rdmatest

import (
	"net"

	"lwio/rdma"
)

var endCases = []Case{
	{Name: "end/disconnect", Source: "[ND Connector.Disconnect], [ND Connector.NotifyDisconnect]", run: disconnect},
	{Name: "end/peer-closes", Source: "[ND NdReceiveConnClosed]", run: peerCloses},
	{Name: "end/queue-pair-closes", Source: "[ND IUnknown.Release]", run: queuePairCloses},
	{Name: "end/message-longer-than-receive", Source: "[ND ndmval], [ND ND2_RESULT]", run: messageTooLong},
	{Name: "end/no-receive-posted", Source: "[ND NdSendNoReceive]", run: noReceivePosted},
	{Name: "end/post-after", Source: "[ND QueuePair.Send]", run: postAfterEnd},
}

// flushed takes the result of a flushed request, and checks that Done was closed before.
func (e *end) flushed(cq rdma.CompletionQueue, id uint64) {
	e.r.Helper()
	res := e.r.next(cq)
	if res.Status != rdma.StatusCanceled || res.ID != id || res.QueuePairContext != e.context {
		e.r.Errorf("result %+v, want that of request %d, canceled", res, id)
	}
	select {
	case <-e.conn.Done():
	default:
		e.r.Error("a request is flushed before Done is closed")
	}
}

// disconnect checks that earlier messages arrive, and that both sides then see the end.
func disconnect(r *rig) {
	active, passive := r.pair(shape{})
	depth := active.shape.depth
	for i := range depth {
		passive.receive(uint64(i), passive.sge(0, 4096))
	}
	active.receive(5, nil)
	for range depth - 1 {
		active.post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 4096)})
	}
	for range depth - 1 {
		if res := active.sent(); res.Status != rdma.StatusSuccess {
			r.Fatalf("send: %+v", res)
		}
	}
	r.ok("disconnect", active.conn.Disconnect(r.ctx()))
	for i := range depth - 1 {
		if res := passive.received(); res.Status != rdma.StatusSuccess || res.ID != uint64(i) {
			r.Fatalf("receive %d before the end: %+v", i, res)
		}
	}
	passive.flushed(passive.rcq, uint64(depth-1))
	active.flushed(active.rcq, 5)
	for _, e := range []*end{active, passive} {
		r.is("an orderly end", e.conn.Err(), net.ErrClosed)
		r.fails("second disconnect", e.conn.Disconnect(r.ctx()), rdma.StatusConnectionInvalid)
	}
}

func peerCloses(r *rig) {
	active, passive := r.pair(shape{})
	for i := range 3 {
		passive.receive(uint64(i), passive.sge(0, 8))
	}
	n := r.notify(passive.rcq, rdma.NotifyAny)
	r.closeNow("connector", active.conn)
	r.ok("notify", n.wait())
	for i := range 3 {
		passive.flushed(passive.rcq, uint64(i))
	}
	r.ends("the side that closed", active.conn)
	r.ends("its peer", passive.conn)
}

func queuePairCloses(r *rig) {
	active, passive := r.pair(shape{})
	passive.receive(1, nil)
	active.receive(2, nil)
	r.closeNow("queue pair", active.qp)
	passive.flushed(passive.rcq, 1)
	active.flushed(active.rcq, 2)
	r.ends("the side that closed", active.conn)
	r.ends("its peer", passive.conn)
}

// messageTooLong checks that the receiver finds the receive that was too short, that no
// byte is written beside it, and that the connection ends. The send may have completed
// with success before.
func messageTooLong(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	passive.receive(1, passive.sge(8, 1023))
	passive.receive(2, passive.sge(2048, 1024))
	active.post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 1024)})
	res := passive.received()
	if res.Status != rdma.StatusBufferOverflow || res.ID != 1 {
		r.Errorf("receive of a message that is too long: %+v", res)
	}
	passive.flushed(passive.rcq, 2)
	r.ends("receiver", passive.conn)
	r.ends("sender", active.conn)
	if !zero(passive.mem[:8]) || !zero(passive.mem[8+1023:]) {
		r.Error("the message wrote beside the receive")
	}
}

// noReceivePosted checks that the connection ends, and that the receiver gets no message.
func noReceivePosted(r *rig) {
	active, passive := r.pair(shape{})
	active.post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 100)})
	r.ends("receiver", passive.conn)
	r.ends("sender", active.conn)
	r.empty("receives", passive.rcq)
	active.receive(1, nil)
	active.flushed(active.rcq, 1)
}

// postAfterEnd checks that requests are refused and receives are flushed, however often
// they are posted.
func postAfterEnd(r *rig) {
	active, passive := r.pair(shape{})
	r.closeNow("connector", active.conn)
	for _, e := range []*end{active, passive} {
		r.ends("end", e.conn)
		for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
			n, err := e.qp.Post([]rdma.Request{{Op: op}})
			if n != 0 {
				r.Errorf("%v after the end: took %d", op, n)
			}
			r.fails(op.String()+" after the end", err, rdma.StatusConnectionInvalid)
		}
		for i := range 2 * e.shape.depth {
			e.receive(uint64(i), nil)
			e.flushed(e.rcq, uint64(i))
		}
	}
}

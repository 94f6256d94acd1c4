package rdmatest

import "lwio/rdma"

var immediateCases = []Case{
	{Name: "immediate/result", Source: "[OP-86]", Needs: rdma.CapImmediate, run: immediateResult},
	{Name: "immediate/after-the-data", Source: "[OP-86], [ND QueuePair §Ordering]", Needs: rdma.CapImmediate, run: immediateAfterData},
	{Name: "immediate/shared", Source: "[OP-86], [ND SharedReceiveQueue]", Needs: rdma.CapImmediate | rdma.CapSharedReceive, run: immediateShared},
}

// immediateResult checks that immediate data consumes a receive in its turn, and leaves
// the receive's memory unchanged.
func immediateResult(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	for i := range 4 {
		passive.receive(uint64(i), passive.sge(0, 8))
	}
	active.post(
		rdma.Request{Op: rdma.OpWrite, ID: 1, Flags: rdma.FlagImmediate, Immediate: 0xFFFFFFFF, SGL: active.sge(0, 3), Remote: passive.at(100)},
		rdma.Request{Op: rdma.OpSend, ID: 2},
		rdma.Request{Op: rdma.OpWrite, ID: 3, Flags: rdma.FlagImmediate | rdma.FlagInline, Immediate: 0, Inline: active.mem[:2], Remote: passive.at(200)},
		rdma.Request{Op: rdma.OpWrite, ID: 4, Flags: rdma.FlagImmediate, Immediate: 7},
	)
	for i := range 4 {
		if res := active.sent(); res.Status != rdma.StatusSuccess || res.ID != uint64(i+1) {
			r.Errorf("request %d: %+v", i+1, res)
		}
	}
	for i, want := range []struct {
		has   bool
		value uint32
	}{{true, 0xFFFFFFFF}, {false, 0}, {true, 0}, {true, 7}} {
		res := passive.received()
		if res.Status != rdma.StatusSuccess || res.ID != uint64(i) || res.HasImmediate != want.has || res.Immediate != want.value {
			r.Errorf("receive %d: %+v, want immediate %v", i, res, want)
		}
	}
	if !zero(passive.mem[:100]) || !same(passive.mem[100:103], active.mem[:3]) || !same(passive.mem[200:202], active.mem[:2]) {
		r.Error("the data is wrong")
	}
}

// immediateAfterData checks that the value is delivered when the whole write is placed.
func immediateAfterData(r *rig) {
	const n = 200_000
	active, passive := r.pair(shape{memory: n})
	for round := range 20 {
		for i := range active.mem {
			active.mem[i] = byte(round + 1)
		}
		passive.receive(1, nil)
		active.post(rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagImmediate, Immediate: uint32(round), SGL: active.sge(0, n), Remote: passive.at(0)})
		if res := passive.received(); !res.HasImmediate || res.Immediate != uint32(round) || !all(passive.mem, byte(round+1)) {
			r.Fatalf("round %d: %+v", round, res)
		}
		active.sent()
	}
}

// immediateShared posts the receive late, to a shared queue.
func immediateShared(r *rig) {
	c := r.sharers(1, rdma.SharedReceiveQueueConfig{Depth: 4, MaxSGE: 1})
	p, e := c.peers[0], c.ends[0]
	p.post(rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagImmediate, Immediate: 5, SGL: p.sge(0, 1), Remote: e.at(0)})
	p.sent()
	c.post(3, 1)
	if res := e.received(); res.Status != rdma.StatusSuccess || !res.HasImmediate || res.Immediate != 5 || res.ID != 3 || res.QueuePairContext != e.context {
		r.Errorf("receive: %+v", res)
	}
}

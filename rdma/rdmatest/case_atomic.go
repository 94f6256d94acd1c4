package rdmatest

import (
	"context"
	"encoding/binary"

	"lwio/rdma"
)

var atomicCases = []Case{
	{Name: "atomic/fetch-add", Source: "[RFC 7306 §5.1.1]", Needs: rdma.CapAtomics, run: fetchAdd},
	{Name: "atomic/compare-swap", Source: "[RFC 7306 §5.1.2]", Needs: rdma.CapAtomics, run: compareSwap},
	{Name: "atomic/order", Source: "[RFC 7306 §5.1], [ND QueuePair §Ordering]", Needs: rdma.CapAtomics, run: atomicOrder},
	{Name: "atomic/limits", Source: "[RFC 7306 §5], [ND Connector.GetReadLimits]", Needs: rdma.CapAtomics, run: atomicsAboveLimit},
	{Name: "atomic/many-connections", Source: "[RFC 7306 §5.1]", Needs: rdma.CapAtomics, run: atomicsOfMany},
	{Name: "atomic/refused", Source: "[RFC 7306 §5.1]", Needs: rdma.CapAtomics, run: atomicRefused},
	{Name: "atomic/violations", Source: "[RFC 7306 §5.1], [ND NdInvalidRead]", Needs: rdma.CapAtomics, run: atomicViolations},
}

// plain returns an atomic that swaps a whole number if it equals compare.
func plain(compare, value uint64) rdma.Atomic {
	return rdma.Atomic{Value: value, Mask: ^uint64(0), Compare: compare, CompareMask: ^uint64(0)}
}

// word returns the number at off of the end's memory.
func (e *end) word(off int) uint64 { return binary.NativeEndian.Uint64(e.mem[off:]) }

// atomics lets each end change a number of the other end in steps. Each step must find
// the value that the previous step left, and leave its own value.
func (r *rig) atomics(op rdma.Op, steps []rdma.Atomic, values []uint64) {
	r.Helper()
	active, passive := r.pair(shape{access: readable})
	for _, ends := range [][2]*end{{active, passive}, {passive, active}} {
		me, peer := ends[0], ends[1]
		fill(peer.mem)
		fill(me.mem)
		binary.NativeEndian.PutUint64(peer.mem[64:], values[0])
		for i, a := range steps {
			before, after := append([]byte(nil), me.mem...), append([]byte(nil), peer.mem...)
			binary.NativeEndian.PutUint64(before[21:], values[i])
			binary.NativeEndian.PutUint64(after[64:], values[i+1])
			me.post(rdma.Request{Op: op, ID: uint64(i), SGL: me.sge(21, 8), Remote: peer.at(64), Atomic: a})
			if res := me.sent(); res.Status != rdma.StatusSuccess || res.Op != op || res.ID != uint64(i) {
				r.Fatalf("step %d: %+v", i, res)
			}
			if !same(me.mem, before) {
				r.Errorf("step %d found %#x, want %#x, or wrote beside it", i, me.word(21), values[i])
			}
			me.deliver(peer)
			if !same(peer.mem, after) {
				r.Errorf("step %d left %#x, want %#x, or wrote beside it", i, peer.word(64), values[i+1])
			}
		}
	}
}

func fetchAdd(r *rig) {
	r.atomics(rdma.OpFetchAdd, []rdma.Atomic{
		{Value: 5},
		{Value: ^uint64(0)}, // subtracts one
		{Value: 0},
		{Value: ^uint64(0) - 6},
		{Value: 0x0001_0002_FFFF_0004, Mask: 0x8000_8000_8000_8000},
		{Value: 0xFFFF_FFFF_0001_0000, Mask: 0x8000_8000_8000_8000},
		{Value: 3, Mask: ^uint64(0)},
	}, []uint64{2, 7, 6, 6, ^uint64(0), 0x0000_0001_FFFE_0003, 0xFFFF_0000_FFFF_0003, 0xFFFF_0000_FFFF_0000})
}

func compareSwap(r *rig) {
	r.atomics(rdma.OpCompareSwap, []rdma.Atomic{
		plain(1, 2),
		plain(1, 3), // does not match
		plain(2, 1<<63|77),
		{Value: 0xAAAA, Mask: 0xFF00, Compare: 77, CompareMask: 0xFF},
		{Value: 5, Mask: ^uint64(0), Compare: 99}, // compares no bit
		{Compare: 5, CompareMask: ^uint64(0)},     // stores no bit
		{Value: ^uint64(0), Mask: 1, Compare: 4, CompareMask: ^uint64(0)},
	}, []uint64{1, 2, 2, 1<<63 | 77, 1<<63 | 0xAA00 | 77, 5, 5, 5})
}

// atomicOrder checks that an atomic sees the write before it, that the read after it sees
// the atomic, and that results come in the order of posting.
func atomicOrder(r *rig) {
	active, passive := r.pair(shape{access: readable})
	for round := range uint64(30) {
		binary.NativeEndian.PutUint64(active.mem, round)
		passive.receive(1, nil)
		active.post(
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, 8), Remote: passive.at(8)},
			rdma.Request{Op: rdma.OpFetchAdd, ID: 1, SGL: active.sge(8, 8), Remote: passive.at(8), Atomic: rdma.Atomic{Value: 100}},
			rdma.Request{Op: rdma.OpCompareSwap, Flags: rdma.FlagSilentSuccess, SGL: active.sge(16, 8), Remote: passive.at(8), Atomic: plain(round+100, round+200)},
			rdma.Request{Op: rdma.OpRead, ID: 2, SGL: active.sge(24, 8), Remote: passive.at(8)},
			rdma.Request{Op: rdma.OpSend, ID: 3},
		)
		for i, op := range []rdma.Op{rdma.OpFetchAdd, rdma.OpRead, rdma.OpSend} {
			if res := active.sent(); res.Op != op || res.ID != uint64(i+1) || res.Status != rdma.StatusSuccess {
				r.Fatalf("result %d: %+v", i, res)
			}
		}
		if active.word(8) != round || active.word(16) != round+100 || active.word(24) != round+200 {
			r.Fatalf("round %d: found %d, %d and %d", round, active.word(8), active.word(16), active.word(24))
		}
		if res := passive.received(); res.Status != rdma.StatusSuccess {
			r.Fatalf("receive: %+v", res)
		}
		if passive.word(8) != round+200 {
			r.Fatalf("round %d: the message is delivered before the atomics are done", round)
		}
	}
}

// atomicsAboveLimit posts many more atomics than may be in progress.
func atomicsAboveLimit(r *rig) {
	active, passive := r.pair(shape{access: readable, reads: 1, depth: 64})
	for i := range 64 {
		active.post(rdma.Request{Op: rdma.OpFetchAdd, ID: uint64(i), SGL: active.sge(8*i, 8), Remote: passive.at(0), Atomic: rdma.Atomic{Value: 3}})
	}
	for i := range 64 {
		if res := active.sent(); res.ID != uint64(i) || res.Status != rdma.StatusSuccess {
			r.Fatalf("atomic %d: %+v", i, res)
		}
		if got := active.word(8 * i); got != uint64(3*i) {
			r.Fatalf("atomic %d found %d", i, got)
		}
	}
}

// atomicsOfMany adds to one number from several connections. Each value must be found
// exactly once.
func atomicsOfMany(r *rig) {
	const peers, rounds, depth = 3, 40, 8
	target := r.end(r.adapter(), shape{access: readable})
	seen := make([][]uint64, peers)
	var calls []*call
	for i := range peers {
		me, other := r.end(r.adapter(), shape{access: readable}), r.end(target.adapter, shape{access: readable})
		r.join(me, other)
		calls = append(calls, r.beginMany("adding", func(context.Context) error {
			for range rounds {
				for j := range depth {
					req := rdma.Request{Op: rdma.OpFetchAdd, SGL: me.sge(8*j, 8), Remote: target.at(0), Atomic: rdma.Atomic{Value: 1}}
					if _, err := me.qp.Post([]rdma.Request{req}); err != nil {
						return err
					}
				}
				for j := range depth {
					if err := me.awaitResult(); err != nil {
						return err
					}
					seen[i] = append(seen[i], me.word(8*j))
				}
			}
			return nil
		}))
	}
	for _, c := range calls {
		r.ok("adding", c.wait())
	}
	found := make([]bool, peers*rounds*depth)
	for _, list := range seen {
		for _, v := range list {
			if v >= uint64(len(found)) || found[v] {
				r.Fatalf("%d was found twice, or is too large", v)
			}
			found[v] = true
		}
	}
}

// atomicRefused checks that impossible requests are refused at once, and that the
// connection continues.
func atomicRefused(r *rig) {
	active, passive := r.pair(shape{access: readable})
	closed := r.region(active.adapter, make([]byte, 64), 0)
	for _, op := range []rdma.Op{rdma.OpFetchAdd, rdma.OpCompareSwap} {
		for _, c := range []struct {
			what   string
			sgl    []rdma.SGE
			flags  rdma.Flags
			status rdma.Status
		}{
			{"nowhere to go", nil, 0, rdma.StatusInvalidBufferSize},
			{"seven bytes", active.sge(0, 7), 0, rdma.StatusInvalidBufferSize},
			{"nine bytes", active.sge(0, 9), 0, rdma.StatusInvalidBufferSize},
			{"no right to write", []rdma.SGE{{Region: closed, Length: 8}}, 0, rdma.StatusAccessViolation},
			{"inline", active.sge(0, 8), rdma.FlagInline, rdma.StatusInvalidParameter},
		} {
			n, err := active.qp.Post([]rdma.Request{{Op: op, Flags: c.flags, SGL: c.sgl, Remote: passive.at(0), Atomic: plain(0, 1)}})
			if n != 0 {
				r.Errorf("%v, %s: taken", op, c.what)
			}
			r.fails(op.String()+", "+c.what, err, c.status)
		}
	}
	active.deliver(passive)
	if !zero(passive.mem) {
		r.Error("the memory changed")
	}
}

// atomicViolations checks that the connection ends, and that no memory changes on either
// side.
func atomicViolations(r *rig) {
	for _, c := range []struct {
		what   string
		access rdma.Access
		want   []rdma.Status
		aim    func(p *end) rdma.RemoteAddr
	}{
		{"not aligned", readable, []rdma.Status{rdma.StatusRemoteError, rdma.StatusAccessViolation},
			func(p *end) rdma.RemoteAddr { return p.at(4) }},
		{"past the end", readable, []rdma.Status{rdma.StatusAccessViolation},
			func(p *end) rdma.RemoteAddr { return p.at(len(p.mem)) }},
		{"no such token", readable, []rdma.Status{rdma.StatusAccessViolation}, func(p *end) rdma.RemoteAddr {
			return rdma.RemoteAddr{Addr: p.at(0).Addr, Token: p.at(0).Token ^ 1<<31}
		}},
		{"no right to read", rdma.AccessRemoteWrite, []rdma.Status{rdma.StatusAccessViolation},
			func(p *end) rdma.RemoteAddr { return p.at(0) }},
		{"no right to write", rdma.AccessLocalWrite | rdma.AccessRemoteRead, []rdma.Status{rdma.StatusAccessViolation},
			func(p *end) rdma.RemoteAddr { return p.at(0) }},
	} {
		active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{access: c.access})
		r.join(active, passive)
		passive.receive(1, nil)
		active.post(rdma.Request{Op: rdma.OpFetchAdd, ID: 7, SGL: active.sge(0, 8), Remote: c.aim(passive), Atomic: rdma.Atomic{Value: ^uint64(0)}})
		res := active.sent()
		r.fails(c.what, res.Status, c.want...)
		passive.flushed(passive.rcq, 1)
		r.ends(c.what+": target", passive.conn)
		r.ends(c.what+": initiator", active.conn)
		if !zero(active.mem) || !zero(passive.mem) {
			r.Errorf("%s: the memory changed", c.what)
		}
	}
}

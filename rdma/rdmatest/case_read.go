package rdmatest

import (
	"context"

	"lwio/rdma"
)

var readCases = []Case{
	{Name: "read/sizes", Source: "[ND QueuePair.Read]", Needs: rdma.CapRead, run: readSizes},
	{Name: "read/scatter", Source: "[ND QueuePair.Read], [ND ND2_SGE]", Needs: rdma.CapRead, run: readScatter},
	{Name: "read/zero-length", Source: "[ND QueuePair.Read]", Needs: rdma.CapRead, run: readNothing},
	{Name: "read/sink-rights", Source: "[ND MR flags]", Needs: rdma.CapRead, run: readSinkRights},
	{Name: "read/order", Source: "[ND QueuePair §Ordering]", Needs: rdma.CapRead, run: readOrder},
	{Name: "read/after-write", Source: "[ND QueuePair §Ordering]", Needs: rdma.CapRead, run: readAfterWrite},
	{Name: "read/fence", Source: "[ND Op flags READ_FENCE]", Needs: rdma.CapRead, run: fencedWrite},
	{Name: "read/limits", Source: "[ND Connector.GetReadLimits]", Needs: rdma.CapRead, run: readsAboveLimit},
	{Name: "read/both-ways", Source: "[ND QueuePair.Read]", Needs: rdma.CapRead, run: readBothWays},
	{Name: "read/violations", Source: "[ND NdInvalidRead], [ND NdOverRead]", Needs: rdma.CapRead, run: readViolations},
}

// readable are the rights of memory that a peer may read and write.
const readable = rdma.AccessRemoteRead | rdma.AccessRemoteWrite

// readSizes reads in both directions, and checks the bytes and the bytes around them.
func readSizes(r *rig) {
	const room = 1 << 20
	active, passive := r.pair(shape{memory: room, access: readable})
	for _, ends := range [][2]*end{{active, passive}, {passive, active}} {
		to, from := ends[0], ends[1]
		fill(from.mem)
		for _, n := range []int{1, 2, 7, 8, 9, 1460, 4096, 65535, 65537, room - 16, room} {
			for _, off := range []int{0, 3} {
				if off+n > room {
					continue
				}
				clear(to.mem)
				to.post(rdma.Request{Op: rdma.OpRead, ID: uint64(n), SGL: to.sge(off, n), Remote: from.at(room - n)})
				if res := to.sent(); res.Status != rdma.StatusSuccess || res.ID != uint64(n) || res.Op != rdma.OpRead {
					r.Fatalf("read of %d bytes: %+v", n, res)
				}
				if !same(to.mem[off:off+n], from.mem[room-n:]) {
					r.Fatalf("%d bytes read to %d are wrong", n, off)
				}
				if !zero(to.mem[:off]) || !zero(to.mem[off+n:]) {
					r.Fatalf("%d bytes read to %d wrote beside their place", n, off)
				}
			}
		}
		clear(to.mem)
	}
}

func readScatter(r *rig) {
	active, passive := r.pair(shape{access: readable})
	fill(passive.mem)
	n := min(active.shape.sge, active.adapter.Info().MaxReadSGE)
	var sgl []rdma.SGE
	total := 0
	for i := range n {
		length := 1500*i + i%2
		sgl = append(sgl, rdma.SGE{Region: active.region, Offset: 8000 * i, Length: length})
		total += length
	}
	active.post(rdma.Request{Op: rdma.OpRead, SGL: sgl, Remote: passive.at(11)})
	if res := active.sent(); res.Status != rdma.StatusSuccess {
		r.Fatalf("read: %+v", res)
	}
	at := 11
	for _, e := range sgl {
		if !same(active.mem[e.Offset:e.Offset+e.Length], passive.mem[at:at+e.Length]) {
			r.Errorf("the piece at %d is wrong", e.Offset)
		}
		at += e.Length
	}
	if total == 0 && n > 1 {
		r.Error("nothing was read")
	}
}

// readNothing checks that a read of no bytes is legal with any address.
func readNothing(r *rig) {
	active, passive := r.pair(shape{access: readable})
	at := passive.at(0)
	for i, req := range []rdma.Request{
		{Op: rdma.OpRead, Remote: at},
		{Op: rdma.OpRead},
		{Op: rdma.OpRead, SGL: active.sge(0, 0), Remote: rdma.RemoteAddr{Addr: 1<<64 - 1, Token: ^at.Token}},
	} {
		req.ID = uint64(i)
		active.post(req)
		if res := active.sent(); res.Status != rdma.StatusSuccess || res.ID != req.ID || res.Op != rdma.OpRead {
			r.Errorf("empty read: %+v", res)
		}
	}
	active.deliver(passive)
}

// readSinkRights checks that a sink needs no remote right, and that memory without any
// right is refused as a sink.
func readSinkRights(r *rig) {
	active, passive := r.pair(shape{access: readable})
	fill(passive.mem)
	sink := make([]byte, 4096)
	m := r.region(active.adapter, sink, rdma.AccessLocalWrite|rdma.AccessReadSink)
	active.post(rdma.Request{Op: rdma.OpRead, SGL: []rdma.SGE{{Region: m, Length: 4096}}, Remote: passive.at(0)})
	if res := active.sent(); res.Status != rdma.StatusSuccess || !same(sink, passive.mem[:4096]) {
		r.Errorf("read into a sink: %+v", res)
	}
	closed := r.region(active.adapter, make([]byte, 64), 0)
	n, err := active.qp.Post([]rdma.Request{{Op: rdma.OpRead, SGL: []rdma.SGE{{Region: closed, Length: 64}}, Remote: passive.at(0)}})
	if n != 0 {
		r.Error("a read into memory without rights is taken")
	}
	r.fails("read into memory without rights", err, rdma.StatusAccessViolation)
}

// readOrder checks that results come in the order of posting, also for requests without a
// response.
func readOrder(r *rig) {
	active, passive := r.pair(shape{access: readable})
	passive.receive(0, nil)
	active.post(
		rdma.Request{Op: rdma.OpRead, ID: 0, SGL: active.sge(0, 32<<10), Remote: passive.at(0)},
		rdma.Request{Op: rdma.OpWrite, ID: 1, SGL: active.sge(40<<10, 8), Remote: passive.at(40 << 10)},
		rdma.Request{Op: rdma.OpRead, Flags: rdma.FlagSilentSuccess, ID: 99, SGL: active.sge(32<<10, 100), Remote: passive.at(0)},
		rdma.Request{Op: rdma.OpSend, ID: 2},
		rdma.Request{Op: rdma.OpRead, ID: 3, SGL: active.sge(33<<10, 100), Remote: passive.at(0)},
	)
	for i, op := range []rdma.Op{rdma.OpRead, rdma.OpWrite, rdma.OpSend, rdma.OpRead} {
		if res := active.sent(); res.ID != uint64(i) || res.Op != op || res.Status != rdma.StatusSuccess {
			r.Fatalf("result %d is %+v", i, res)
		}
	}
}

// readAfterWrite repeatedly reads back the last write.
func readAfterWrite(r *rig) {
	active, passive := r.pair(shape{access: readable})
	const n = 20 << 10
	for round := range 30 {
		for i := range n {
			active.mem[i] = byte(round + i)
		}
		active.post(
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, n), Remote: passive.at(5)},
			rdma.Request{Op: rdma.OpRead, SGL: active.sge(n, n), Remote: passive.at(5)},
		)
		if res := active.sent(); res.Status != rdma.StatusSuccess || res.Op != rdma.OpRead {
			r.Fatalf("round %d: %+v", round, res)
		}
		if !same(active.mem[:n], active.mem[n:2*n]) {
			r.Fatalf("round %d: the read is older than the write before it", round)
		}
	}
}

// fencedWrite checks that a fenced write does not change the data of the read before it.
func fencedWrite(r *rig) {
	active, passive := r.pair(shape{access: readable})
	const n = 20 << 10
	for round := range 20 {
		for i := range n {
			passive.mem[i] = byte(round + 1)
			active.mem[n+i] = byte(round + 101)
		}
		active.post(
			rdma.Request{Op: rdma.OpRead, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, n), Remote: passive.at(0)},
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagReadFence, SGL: active.sge(n, n), Remote: passive.at(0)},
		)
		active.deliver(passive)
		if !all(active.mem[:n], byte(round+1)) || !all(passive.mem[:n], byte(round+101)) {
			r.Fatalf("round %d: the write overtook the read", round)
		}
	}
}

// readsAboveLimit posts many more reads than may be in progress.
func readsAboveLimit(r *rig) {
	active, passive := r.pair(shape{access: readable, reads: 2, depth: 32})
	fill(passive.mem)
	for i := range 32 {
		active.post(rdma.Request{Op: rdma.OpRead, ID: uint64(i), SGL: active.sge(1000*i, 1000), Remote: passive.at(1000 * i)})
	}
	for i := range 32 {
		if res := active.sent(); res.ID != uint64(i) || res.Status != rdma.StatusSuccess {
			r.Fatalf("read %d: %+v", i, res)
		}
	}
	if !same(active.mem[:32000], passive.mem[:32000]) {
		r.Error("the reads are wrong")
	}
}

// readBothWays lets both sides read and write much data at once. Neither side may wait
// for the other to read its stream.
func readBothWays(r *rig) {
	const part = 512 << 10
	active, passive := r.pair(shape{memory: 4 * part, access: readable})
	fill(active.mem[:part])
	fill(passive.mem[:part])
	play := func(me, peer *end) error {
		for range 8 {
			_, err := me.qp.Post([]rdma.Request{
				{Op: rdma.OpRead, Flags: rdma.FlagSilentSuccess, SGL: me.sge(part, part), Remote: peer.at(0)},
				{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: me.sge(0, part), Remote: peer.at(2 * part)},
				{Op: rdma.OpRead, SGL: me.sge(3*part, part), Remote: peer.at(0)},
			})
			if err != nil {
				return err
			}
			if err := me.awaitResult(); err != nil {
				return err
			}
		}
		return nil
	}
	other := r.beginMany("the other side", func(context.Context) error { return play(passive, active) })
	r.ok("this side", play(active, passive))
	r.ok("the other side", other.wait())
	active.deliver(passive)
	passive.deliver(active)
	for _, e := range []*end{active, passive} {
		for i := 1; i < 4; i++ {
			if !same(e.mem[:part], e.mem[i*part:(i+1)*part]) {
				r.Errorf("part %d is wrong", i)
			}
		}
	}
}

// readViolations checks that the read ends with StatusAccessViolation, that no byte is
// read, and that the connection ends.
func readViolations(r *rig) {
	for _, c := range []struct {
		what   string
		access rdma.Access
		n      int
		aim    func(p *end) rdma.RemoteAddr
	}{
		{"one byte past the end", readable, 8, func(p *end) rdma.RemoteAddr { return p.at(len(p.mem) - 7) }},
		{"one byte before", readable, 1, func(p *end) rdma.RemoteAddr { return p.at(-1) }},
		{"wraps", readable, 8, func(p *end) rdma.RemoteAddr {
			return rdma.RemoteAddr{Addr: 1<<64 - 4, Token: p.at(0).Token}
		}},
		{"no such token", readable, 8, func(p *end) rdma.RemoteAddr {
			return rdma.RemoteAddr{Addr: p.at(0).Addr, Token: p.at(0).Token ^ 1<<31}
		}},
		{"no right of remote read", rdma.AccessRemoteWrite, 8, func(p *end) rdma.RemoteAddr { return p.at(0) }},
		{"closed region", readable, 8, func(p *end) rdma.RemoteAddr {
			m := r.region(p.adapter, p.mem, readable)
			at := m.RemoteAddr()
			r.closeNow("region", m)
			return at
		}},
	} {
		r.readViolates(c.what, c.access, c.n, c.aim)
	}
}

func (r *rig) readViolates(what string, access rdma.Access, n int, aim func(p *end) rdma.RemoteAddr) {
	r.Helper()
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{access: access})
	r.join(active, passive)
	fill(passive.mem)
	at := aim(passive)
	passive.receive(1, nil)
	active.post(rdma.Request{Op: rdma.OpRead, ID: 7, SGL: active.sge(0, n), Remote: at})
	if res := active.sent(); res.Status != rdma.StatusAccessViolation || res.ID != 7 {
		r.Errorf("%s: the read ends with %+v", what, res)
	}
	passive.flushed(passive.rcq, 1)
	r.ends(what+": target", passive.conn)
	r.ends(what+": initiator", active.conn)
	if !zero(active.mem) {
		r.Errorf("%s: something was read", what)
	}
}

package rdmatest

import (
	"context"
	"sync/atomic"

	"lwio/rdma"
)

var writeCases = []Case{
	{Name: "write/sizes", Source: "[ND QueuePair.Write]", run: writeSizes},
	{Name: "write/gather", Source: "[ND QueuePair.Write], [ND ND2_SGE]", run: writeGather},
	{Name: "write/zero-length", Source: "[ND QueuePair.Write]", run: writeNothing},
	{Name: "write/then-send", Source: "[ND QueuePair §Ordering]", run: writeThenSend},
	{Name: "write/descending", Source: "[ND ndmw]", run: writeDescending},
	{Name: "write/polled-word", Source: "[ND ndrpingpong], [ND ndrping], [OP-88], [OP-89b]", Needs: rdma.CapInOrderPlacement, run: polledWord},
	{Name: "write/alloc", Source: "[ND QueuePair.Write]", run: writeAlloc},
}

// writeSizes writes in both directions, and checks the bytes and the bytes around them.
func writeSizes(r *rig) {
	const room = 1 << 20
	active, passive := r.pair(shape{memory: room})
	for _, ends := range [][2]*end{{active, passive}, {passive, active}} {
		from, to := ends[0], ends[1]
		fill(from.mem)
		for _, n := range []int{1, 2, 7, 8, 9, 1460, 4096, 65535, 65537, room - 16, room} {
			for _, off := range []int{0, 3, 8} {
				if off+n > room {
					continue
				}
				clear(to.mem)
				from.post(rdma.Request{Op: rdma.OpWrite, SGL: from.sge(room-n, n), Remote: to.at(off)})
				from.deliver(to)
				if !same(to.mem[off:off+n], from.mem[room-n:]) {
					r.Fatalf("%d bytes at %d arrive changed", n, off)
				}
				if !zero(to.mem[:off]) || !zero(to.mem[off+n:]) {
					r.Fatalf("%d bytes at %d wrote beside their place", n, off)
				}
			}
		}
		clear(to.mem)
	}
}

func writeGather(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	var sgl []rdma.SGE
	var want []byte
	for i := range active.shape.sge {
		n, off := 1500*i+i%2, 7*i
		sgl = append(sgl, rdma.SGE{Region: active.region, Offset: off, Length: n})
		want = append(want, active.mem[off:off+n]...)
	}
	active.post(rdma.Request{Op: rdma.OpWrite, SGL: sgl, Remote: passive.at(11)})
	active.deliver(passive)
	if !same(passive.mem[11:11+len(want)], want) || !zero(passive.mem[:11]) || !zero(passive.mem[11+len(want):]) {
		r.Error("the pieces are not written one after another")
	}
}

// writeNothing checks that a write of no bytes is legal with any address.
func writeNothing(r *rig) {
	active, passive := r.pair(shape{})
	at := passive.at(0)
	active.post(
		rdma.Request{Op: rdma.OpWrite, Remote: at},
		rdma.Request{Op: rdma.OpWrite},
		rdma.Request{Op: rdma.OpWrite, Remote: rdma.RemoteAddr{Addr: 1<<64 - 1, Token: ^at.Token}},
		rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 0), Remote: rdma.RemoteAddr{Addr: at.Addr, Token: at.Token + 1}},
	)
	active.deliver(passive)
	if !zero(passive.mem) {
		r.Error("an empty write changed memory")
	}
}

// writeThenSend checks that a receive completes after all earlier writes are placed.
func writeThenSend(r *rig) {
	active, passive := r.pair(shape{memory: 256 << 10})
	for round := range 50 {
		for i := range active.mem {
			active.mem[i] = byte(round + 1)
		}
		half := len(active.mem) / 2
		passive.receive(0, nil)
		active.post(
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, half), Remote: passive.at(0)},
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(half, half), Remote: passive.at(half)},
			rdma.Request{Op: rdma.OpSend},
		)
		if res := passive.received(); res.Status != rdma.StatusSuccess {
			r.Fatalf("receive: %+v", res)
		}
		if !same(passive.mem, active.mem) {
			r.Fatalf("round %d: the message is there before the writes", round)
		}
		active.sent()
	}
}

// writeDescending covers memory with many small writes, from the end to the start.
func writeDescending(r *rig) {
	active, passive := r.pair(shape{memory: 16 << 10})
	fill(active.mem)
	inFlight := 0
	for off := len(active.mem) - 4; off >= 0; off -= 4 {
		active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(off, 4), Remote: passive.at(off)})
		if inFlight++; inFlight == active.shape.depth {
			active.sent()
			inFlight--
		}
	}
	for ; inFlight > 0; inFlight-- {
		active.sent()
	}
	active.deliver(passive)
	if !same(passive.mem, active.mem) {
		r.Error("the memory differs")
	}
}

// polledWord exchanges writes without results at the receiving side. Each side polls an
// aligned word, which its peer writes last.
func polledWord(r *rig) {
	const size, mark = 4096, 8192
	active, passive := r.pair(shape{})
	rounds := 300
	play := func(me, peer *end, first bool) error {
		mine := word(me.mem, mark)
		for i := range uint64(rounds) {
			if !first {
				if err := r.awaitWord(mine, i+1); err != nil {
					return err
				}
				if !all(me.mem[:size], byte(i+1)) {
					return errTorn
				}
			}
			out := me.mem[size : 2*size]
			for j := range out {
				out[j] = byte(i + 1)
			}
			*word(me.mem, mark+64) = i + 1
			if err := me.writeMarked(peer, size, mark); err != nil {
				return err
			}
			if first {
				if err := r.awaitWord(mine, i+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	serve := r.beginMany("pong", func(context.Context) error { return play(passive, active, false) })
	r.ok("ping", play(active, passive, true))
	r.ok("pong", serve.wait())
}

// writeMarked writes size bytes to the start of the peer's memory, then the word beside
// them, and waits for the result of the second write.
func (e *end) writeMarked(peer *end, size, mark int) error {
	_, err := e.qp.Post([]rdma.Request{
		{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: e.sge(size, size), Remote: peer.at(0)},
		{Op: rdma.OpWrite, SGL: e.sge(mark+64, 8), Remote: peer.at(mark)},
	})
	if err != nil {
		return err
	}
	return e.awaitResult()
}

// awaitWord polls a word until it has a value, like a program that waits for a peer's
// write.
func (r *rig) awaitWord(w *uint64, want uint64) error {
	for end := r.deadline(); ; {
		got := atomic.LoadUint64(w)
		if got == want {
			return nil
		}
		if got != want-1 {
			return errTorn
		}
		if err := end.pause(); err != nil {
			return err
		}
	}
}

// writeAlloc moves data between memory of Alloc.
func writeAlloc(r *rig) {
	active, passive := r.pair(shape{})
	var mems [2][]byte
	var regions [2]rdma.MemoryRegion
	for i, e := range []*end{active, passive} {
		m, err := e.adapter.Alloc(r.ctx(), 100_000)
		r.ok("alloc", err)
		r.closeLater("memory", m)
		mems[i], regions[i] = m.Bytes(), r.region(e.adapter, m.Bytes(), rdma.AccessRemoteWrite)
	}
	fill(mems[0])
	active.post(rdma.Request{Op: rdma.OpWrite, SGL: []rdma.SGE{{Region: regions[0], Length: len(mems[0])}}, Remote: regions[1].RemoteAddr()})
	active.deliver(passive)
	if !same(mems[0], mems[1]) {
		r.Error("the memory differs")
	}
}

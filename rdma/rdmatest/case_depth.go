package rdmatest

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"lwio/rdma"
)

// The cases with numbers at their limits, and with unreachable destinations.
var depthCases = []Case{
	{Name: "flow/full-depth", Source: "[ND ndping], [ND NdQpMaxAll]", run: creditsAtFullDepth},
	{Name: "memory/many", Source: "[ND ndmrlat], [ND ndmrrate], [ND MemoryRegion.GetRemoteToken]", run: manyRegions},
	{Name: "connect/unroutable", Source: "[ND NdInvalidIP]", run: unroutable},
}

// creditsAtFullDepth is credits with queues of the adapter's maximum depth. The private
// data carries the depths. The sender has as many sends in flight as the peer has
// receives, most of them without a result. The last message is empty.
func creditsAtFullDepth(r *rig) {
	const size = 16
	info := r.adapter().Info()
	depth := min(info.MaxReceiveQueueDepth, info.MaxInitiatorQueueDepth, info.MaxCompletionQueueDepth-8) &^ 1
	s := shape{depth: depth, memory: depth * size}
	active, passive := r.end(r.adapter(), s), r.end(r.adapter(), s)
	for i := range depth {
		passive.receive(uint64(i), passive.sge(i*size, size))
	}
	mine := binary.BigEndian.AppendUint32(nil, uint32(depth))
	m := r.meet(active, passive, mine)
	r.hasPrivateData("request", passive.conn, mine)
	accept := m.accept(mine)
	r.hasPrivateData("acceptance", active.conn, mine)
	for range 4 {
		active.receive(0, nil)
	}
	r.ok("complete connect", active.conn.CompleteConnect(r.ctx()))
	r.ok("accept", accept.wait())

	total := 2 * depth
	serve := r.beginMany("receiver", func(context.Context) error { return passive.giveCredits(total, depth, size) })
	active.sendOnCredit(total, depth, size)
	r.ok("receiver", serve.wait())
	active.post(rdma.Request{Op: rdma.OpSend})
	if res := passive.received(); res.Status != rdma.StatusSuccess || res.Bytes != 0 {
		r.Errorf("the last message: %+v", res)
	}
}

// sendOnCredit sends numbered messages. One send of each half queue has a result.
func (e *end) sendOnCredit(total, depth, size int) {
	e.r.Helper()
	credit, underWay := depth, 0
	for i := range total {
		for credit == 0 {
			if res := e.received(); res.Status != rdma.StatusSuccess {
				e.r.Fatalf("credit: %+v", res)
			}
			e.receive(0, nil)
			credit += depth / 2
		}
		if underWay == depth {
			if res := e.sent(); res.Status != rdma.StatusSuccess {
				e.r.Fatalf("send before %d: %+v", i, res)
			}
			underWay -= depth / 2
		}
		req := rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess, SGL: e.sge(i%depth*size, size)}
		if i%(depth/2) == depth/2-1 {
			req.Flags = 0
		}
		binary.LittleEndian.PutUint64(e.mem[i%depth*size:], uint64(i))
		e.post(req)
		credit--
		underWay++
	}
	// At most one half remains in flight, so that there is room for another request.
	for ; underWay > depth/2; underWay -= depth / 2 {
		e.sent()
	}
}

// manyRegions registers the same memory many times. Each registration has its own token,
// which is valid while the registration is open, and not afterwards.
func manyRegions(r *rig) {
	const n = 1000
	active, passive := r.pair(shape{})
	fill(active.mem)
	buf := make([]byte, n)
	regions := make([]rdma.MemoryRegion, n)
	seen := make(map[rdma.RemoteToken]bool)
	for i := range regions {
		regions[i] = r.region(passive.adapter, buf, rdma.AccessRemoteWrite)
		if token := regions[i].RemoteAddr().Token; seen[token] {
			r.Fatalf("registration %d has a token that another has: %#x", i, token)
		} else {
			seen[token] = true
		}
	}
	for k, i := range rand.Perm(n) {
		at := regions[i].RemoteAddr()
		at.Addr += uint64(i)
		active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(i, 1), Remote: at})
		if k%8 == 7 {
			active.deliver(passive)
			r.closeNow("region", regions[i])
		}
	}
	if !same(buf, active.mem[:n]) {
		r.Error("data written through the registrations is missing")
	}
}

// unroutable connects to an unreachable address. The connector can then be used for
// another attempt.
func unroutable(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	nowhere := r.cfg.Addr
	if nowhere.AddrPort.IsValid() {
		// The broadcast address is not an end of a connection.
		nowhere.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 7)
	} else {
		nowhere.Host, nowhere.Name = [16]byte{0xff, 0xfe, 0xfd}, "no-such-name"
	}
	err := active.conn.Connect(r.ctx(), active.qp, nowhere, active.limits(), nil)
	r.fails("connect to nowhere", err, rdma.StatusNetworkUnreachable, rdma.StatusHostUnreachable)
	r.is("connect to nowhere", err, rdma.StatusBadNetworkName)
	r.join(active, passive)
	active.deliver(passive)
}

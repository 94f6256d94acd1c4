package rdmatest

import (
	"context"
	"math"

	"lwio/rdma"
)

var violationCases = []Case{
	{Name: "violation/bounds", Source: "[ND NdOverWrite]", run: violateBounds},
	{Name: "violation/wrap-around", Source: "[ND NdOverWrite], [RFC 5041 §7.1]", run: violateWrap},
	{Name: "violation/token", Source: "[ND NdInvalidWrite]", run: violateToken},
	{Name: "violation/rights", Source: "[ND NdWriteViolation]", run: violateRights},
	{Name: "violation/closed-region", Source: "[ND NdInvalidWrite], [ND MemoryRegion.Deregister]", run: violateClosed},
	{Name: "violation/other-adapter", Source: "[ND Provider.OpenAdapter]", run: violateAdapter},
	{Name: "violation/close-is-final", Source: "[ND MemoryRegion.Deregister]", run: closeIsFinal},
}

// violates lets a new pair write n bytes to the address that aim returns. It checks that
// the memory does not change, that the connection ends, and that no later request
// arrives.
//
// The write itself may have completed with success before the peer detected the
// violation.
func (r *rig) violates(what string, s shape, n int, aim func(passive *end) rdma.RemoteAddr) {
	r.Helper()
	active, passive := r.pair(s)
	fill(active.mem)
	at := aim(passive)
	passive.receive(1, nil)
	took, err := active.qp.Post([]rdma.Request{
		{Op: rdma.OpWrite, SGL: active.sge(0, n), Remote: at},
		{Op: rdma.OpSend},
	})
	if took == 0 {
		r.Fatalf("%s: post: %v", what, err)
	}
	if took == 1 {
		r.fails(what+": post after the peer refused", err, rdma.StatusConnectionInvalid)
	}
	passive.flushed(passive.rcq, 1)
	r.ends(what+": target", passive.conn)
	r.ends(what+": initiator", active.conn)
	if !zero(passive.mem) {
		r.Errorf("%s: the memory was written", what)
	}
	switch res := active.sent(); res.Status {
	case rdma.StatusSuccess, rdma.StatusAccessViolation, rdma.StatusRemoteError, rdma.StatusCanceled:
	default:
		r.Errorf("%s: the write ends with %v", what, res.Status)
	}
}

func violateBounds(r *rig) {
	const size = 4096
	for _, c := range []struct {
		what   string
		off, n int
	}{
		{"one byte longer than the region", 0, size},
		{"last byte past the end", size - 7, 7},
		{"at the end", size - 1, 1},
		{"one byte before", -1, 1},
		{"across the start", -1, 8},
		{"far away", 1 << 40, 1},
	} {
		r.violates(c.what, shape{memory: size}, c.n, func(p *end) rdma.RemoteAddr {
			// There is memory after the region, and none before it.
			at := r.region(p.adapter, p.mem[:size-1], rdma.AccessRemoteWrite).RemoteAddr()
			at.Addr += uint64(c.off)
			return at
		})
	}
}

// violateWrap uses sums of address and length that do not fit into 64 bits.
func violateWrap(r *rig) {
	for _, c := range []struct {
		what string
		addr func(base uint64) uint64
		n    int
	}{
		{"ends at 2^64", func(uint64) uint64 { return math.MaxUint64 - 7 }, 8},
		{"ends beyond 2^64", func(uint64) uint64 { return math.MaxUint64 - 3 }, 8},
		{"last byte", func(uint64) uint64 { return math.MaxUint64 }, 1},
		{"sign bit", func(base uint64) uint64 { return base ^ 1<<63 }, 8},
		{"distance that looks negative", func(base uint64) uint64 { return base - 8 }, 16},
	} {
		r.violates(c.what, shape{memory: 4096}, c.n, func(p *end) rdma.RemoteAddr {
			at := p.at(0)
			at.Addr = c.addr(at.Addr)
			return at
		})
	}
}

func violateToken(r *rig) {
	for _, c := range []struct {
		what  string
		wrong func(rdma.RemoteToken) rdma.RemoteToken
	}{
		{"token plus one", func(t rdma.RemoteToken) rdma.RemoteToken { return t + 1 }},
		{"token inverted", func(t rdma.RemoteToken) rdma.RemoteToken { return ^t }},
		{"top bit", func(t rdma.RemoteToken) rdma.RemoteToken { return t ^ 1<<31 }},
		{"zero", func(rdma.RemoteToken) rdma.RemoteToken { return 0 }},
	} {
		r.violates(c.what, shape{}, 8, func(p *end) rdma.RemoteAddr {
			at := p.at(0)
			at.Token = c.wrong(at.Token)
			return at
		})
	}
}

func violateRights(r *rig) {
	for _, access := range []rdma.Access{rdma.AccessLocalWrite, rdma.AccessLocalWrite | rdma.AccessRemoteRead, rdma.AccessLocalWrite | rdma.AccessReadSink} {
		r.violates("no right of remote write", shape{access: access}, 8, func(p *end) rdma.RemoteAddr { return p.at(0) })
	}
}

func violateClosed(r *rig) {
	r.violates("closed region", shape{}, 8, func(p *end) rdma.RemoteAddr {
		m := r.region(p.adapter, p.mem, rdma.AccessRemoteWrite)
		at := m.RemoteAddr()
		r.closeNow("region", m)
		// The region in its place has another token.
		if again := r.region(p.adapter, p.mem, rdma.AccessRemoteWrite).RemoteAddr(); again.Token == at.Token {
			r.Errorf("token %#x is used again at once", at.Token)
		}
		return at
	})
}

// violateAdapter checks that a region of one adapter cannot be accessed through another
// adapter.
func violateAdapter(r *rig) {
	other := make([]byte, 64)
	m := r.region(r.adapter(), other, rdma.AccessRemoteWrite)
	r.violates("region of another adapter", shape{}, 8, func(*end) rdma.RemoteAddr { return m.RemoteAddr() })
	if !zero(other) {
		r.Error("the memory was written")
	}
}

// closeIsFinal closes a region during a stream of writes.
func closeIsFinal(r *rig) {
	for range 5 {
		active, passive := r.pair(shape{memory: 64 << 10})
		fill(active.mem)
		buf := make([]byte, 64<<10)
		m, err := passive.adapter.RegisterMemory(r.ctx(), buf, rdma.AccessRemoteWrite)
		r.ok("register", err)
		at := m.RemoteAddr()
		stream := r.begin("writes", func(context.Context) error {
			for off := 0; ; off ^= 1 {
				_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpWrite, SGL: active.sge(off, len(buf)-1), Remote: at}})
				if err != nil {
					return err
				}
				if err := active.awaitResult(); err != nil {
					return err
				}
			}
		})
		// The first write is placed: from now on the memory changes continuously.
		passive.receive(1, nil)
		active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess})
		passive.received()
		r.closeNow("region", m)
		final := append([]byte(nil), buf...)
		if err := stream.wait(); err == nil {
			r.Error("writing to a closed region never fails")
		}
		r.ends("target", passive.conn)
		if !same(final, buf) {
			r.Fatal("a region that is closed was written")
		}
	}
}

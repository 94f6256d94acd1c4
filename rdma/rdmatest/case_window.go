package rdmatest

import (
	"lwio/rdma"
)

var windowCases = []Case{
	{Name: "window/transfer", Source: "[ND ndmw]", Needs: rdma.CapWindows, run: windowTransfer},
	{Name: "window/token", Source: "[ND MemoryWindow.GetRemoteToken]", Needs: rdma.CapWindows, run: windowToken},
	{Name: "window/order", Source: "[ND QueuePair.Bind], [ND QueuePair §Ordering]", Needs: rdma.CapWindows, run: windowOrder},
	{Name: "window/cycle", Source: "[ND QueuePair.Bind], [OP-111b]", Needs: rdma.CapWindows, run: windowCycle},
	{Name: "window/busy", Source: "[ND NdMRDeregister]", Needs: rdma.CapWindows, run: windowBusy},
	{Name: "window/refused", Source: "[ND QueuePair.Bind], [ND QueuePair.Invalidate]", Needs: rdma.CapWindows, run: windowRefused},
	{Name: "window/connection-ends", Source: "[ND IUnknown.Release]", Needs: rdma.CapWindows, run: windowEnds},
	{Name: "window/write-violations", Source: "[ND NdInvalidWrite], [ND NdOverWrite], [ND NdWriteViolation]", Needs: rdma.CapWindows, run: windowWriteViolations},
	{Name: "window/read-violations", Source: "[ND NdInvalidRead], [ND NdOverRead]", Needs: rdma.CapWindows | rdma.CapRead, run: windowReadViolations},
}

// The rights of a window.
const (
	allowRead  = rdma.FlagAllowRead
	allowWrite = rdma.FlagAllowWrite
)

// window makes a window for the rest of the case.
func (e *end) window() rdma.MemoryWindow {
	e.r.Helper()
	w, err := e.adapter.CreateMemoryWindow()
	e.r.ok("create window", err)
	e.r.closeLater("window", w)
	return w
}

// bind binds a window to a part of the end's memory and waits for the result.
func (e *end) bind(w rdma.MemoryWindow, off, n int, rights rdma.Flags) rdma.RemoteAddr {
	e.r.Helper()
	e.windowOp(rdma.Request{Op: rdma.OpBind, ID: 1, Flags: rights, Window: w, Region: e.region, Offset: off, Length: n})
	return w.RemoteAddr()
}

func (e *end) invalidate(w rdma.MemoryWindow) {
	e.r.Helper()
	e.windowOp(rdma.Request{Op: rdma.OpInvalidate, ID: 2, Window: w})
}

// windowOp posts a request for a window and takes its result.
func (e *end) windowOp(req rdma.Request) {
	e.r.Helper()
	e.post(req)
	if res := e.sent(); res.Status != rdma.StatusSuccess || res.Op != req.Op || res.ID != req.ID || res.QueuePairContext != e.context {
		e.r.Fatalf("%v: %+v", req.Op, res)
	}
}

// windowTransfer binds the middle of memory, which the peer then writes and reads.
func windowTransfer(r *rig) {
	active, passive := r.pair(shape{memory: 256 << 10})
	fill(active.mem)
	w := passive.window()
	const off, n = 1001, 150_000
	at := passive.bind(w, off, n, allowRead|allowWrite)
	active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, n), Remote: at})
	active.deliver(passive)
	if !same(passive.mem[off:off+n], active.mem[:n]) || !zero(passive.mem[:off]) || !zero(passive.mem[off+n:]) {
		r.Error("the write through the window is wrong")
	}
	if !active.adapter.Info().Caps.Has(rdma.CapRead) {
		return
	}
	clear(active.mem)
	at.Addr += 500
	active.post(rdma.Request{Op: rdma.OpRead, SGL: active.sge(7, 1000), Remote: at})
	if res := active.sent(); res.Status != rdma.StatusSuccess || !same(active.mem[7:1007], passive.mem[off+500:off+1500]) {
		r.Errorf("read through the window: %+v", res)
	}
}

// windowToken checks that the token is available when the post has returned, and is new
// each time.
func windowToken(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	w := passive.window()
	seen := map[rdma.RemoteToken]bool{passive.at(0).Token: true}
	for i := range 10 {
		passive.post(rdma.Request{Op: rdma.OpBind, Flags: allowWrite, Window: w, Region: passive.region, Offset: i, Length: 8})
		at := w.RemoteAddr()
		if seen[at.Token] {
			r.Fatalf("token %#x has been used before", at.Token)
		}
		seen[at.Token] = true
		passive.sent()
		active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 8), Remote: at})
		active.deliver(passive)
		if !same(passive.mem[i:i+8], active.mem[:8]) {
			r.Fatal("a write to the token does not arrive")
		}
		clear(passive.mem)
		passive.invalidate(w)
	}
}

// windowOrder checks that binds and invalidates take effect in their turn, and that
// results come in the order of posting.
func windowOrder(r *rig) {
	active, passive := r.pair(shape{})
	w, v := passive.window(), passive.window()
	active.receive(1, active.sge(0, 4096))
	passive.post(
		rdma.Request{Op: rdma.OpBind, ID: 0, Flags: allowWrite, Window: w, Region: passive.region, Length: 64},
		rdma.Request{Op: rdma.OpBind, ID: 9, Flags: allowWrite | rdma.FlagSilentSuccess, Window: v, Region: passive.region, Offset: 64, Length: 64},
		rdma.Request{Op: rdma.OpSend, ID: 1, SGL: passive.sge(0, 4096)},
		rdma.Request{Op: rdma.OpInvalidate, ID: 2, Window: w},
		rdma.Request{Op: rdma.OpBind, ID: 3, Flags: allowRead, Window: w, Region: passive.region, Length: 64},
		rdma.Request{Op: rdma.OpInvalidate, ID: 4, Window: w},
	)
	for i, op := range []rdma.Op{rdma.OpBind, rdma.OpSend, rdma.OpInvalidate, rdma.OpBind, rdma.OpInvalidate} {
		if res := passive.sent(); res.ID != uint64(i) || res.Op != op || res.Status != rdma.StatusSuccess {
			r.Fatalf("result %d: %+v", i, res)
		}
	}
	if res := active.received(); res.Status != rdma.StatusSuccess {
		r.Errorf("receive: %+v", res)
	}
	fill(active.mem)
	active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 64), Remote: v.RemoteAddr()})
	active.deliver(passive)
	if !same(passive.mem[64:128], active.mem[:64]) {
		r.Error("the silently bound window does not work")
	}
}

// windowCycle binds many windows in turn, like a protocol that binds a window for each of
// its requests.
func windowCycle(r *rig) {
	active, passive := r.pair(shape{})
	windows := make([]rdma.MemoryWindow, 40)
	for i := range windows {
		windows[i] = passive.window()
	}
	for round := range 10 {
		for i, w := range windows {
			at := passive.bind(w, 100*i, 100, allowWrite)
			clear(active.mem[:100])
			active.mem[99] = byte(round + i + 1)
			active.post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 100), Remote: at})
			active.sent()
		}
		active.deliver(passive)
		for i, w := range windows {
			if passive.mem[100*i+99] != byte(round+i+1) {
				r.Fatalf("round %d: window %d was not written", round, i)
			}
			passive.invalidate(w)
		}
	}
}

// windowBusy checks that a region cannot be closed while a window is bound to it.
func windowBusy(r *rig) {
	_, passive := r.pair(shape{})
	m, err := passive.adapter.RegisterMemory(r.ctx(), make([]byte, 4096), rdma.AccessRemoteWrite)
	r.ok("register", err)
	w, v := passive.window(), passive.window()
	bind := func(w rdma.MemoryWindow) rdma.Request {
		return rdma.Request{Op: rdma.OpBind, ID: 1, Flags: allowWrite, Window: w, Region: m, Length: 4096}
	}
	passive.windowOp(bind(w))
	passive.windowOp(bind(v))
	r.fails("close of a region with two windows", m.Close(), rdma.StatusDeviceBusy)
	passive.invalidate(w)
	r.fails("close of a region with one window", m.Close(), rdma.StatusDeviceBusy)
	r.closeNow("window", v)
	r.closeNow("region", m)
	n, err := passive.qp.Post([]rdma.Request{bind(w)})
	if n != 0 {
		r.Error("a bind to a closed region is taken")
	}
	r.fails("bind to a closed region", err, rdma.StatusAccessViolation)
}

// windowRefused checks that an impossible bind is refused at once and has no effect.
func windowRefused(r *rig) {
	active, passive := r.pair(shape{memory: 4096})
	w := passive.window()
	other := r.region(active.adapter, make([]byte, 64), rdma.AccessRemoteWrite)
	readOnly := r.region(passive.adapter, make([]byte, 64), rdma.AccessRemoteRead)
	bind := rdma.Request{Op: rdma.OpBind, Flags: allowWrite, Window: w, Region: passive.region, Length: 8}
	with := func(f func(*rdma.Request)) rdma.Request {
		req := bind
		f(&req)
		return req
	}
	for what, req := range map[string]rdma.Request{
		"a region of another adapter": with(func(q *rdma.Request) { q.Region = other }),
		"no region":                   with(func(q *rdma.Request) { q.Region = nil }),
		"no right of writing":         with(func(q *rdma.Request) { q.Region = readOnly }),
		"more than the region":        with(func(q *rdma.Request) { q.Offset = 4089 }),
		"before the region":           with(func(q *rdma.Request) { q.Offset = -1 }),
		"negative length":             with(func(q *rdma.Request) { q.Length = -1 }),
	} {
		n, err := passive.qp.Post([]rdma.Request{req})
		if n != 0 {
			r.Errorf("a bind to %s is taken", what)
		}
		r.fails("bind to "+what, err, rdma.StatusAccessViolation)
	}
	for what, req := range map[string]rdma.Request{
		"bind without rights":              with(func(q *rdma.Request) { q.Flags = 0 }),
		"bind of no window":                with(func(q *rdma.Request) { q.Window = nil }),
		"bind of another adapter's window": with(func(q *rdma.Request) { q.Window = active.window() }),
		"invalidate of no window":          {Op: rdma.OpInvalidate},
	} {
		n, err := passive.qp.Post([]rdma.Request{req})
		if n != 0 {
			r.Errorf("%s is taken", what)
		}
		r.fails(what, err, rdma.StatusInvalidParameter)
	}
	refused := func(what string, req rdma.Request) {
		n, err := passive.qp.Post([]rdma.Request{req})
		if n != 0 {
			r.Errorf("%s is taken", what)
		}
		r.fails(what, err, rdma.StatusInvalidDeviceRequest)
	}
	refused("invalidate of an unbound window", rdma.Request{Op: rdma.OpInvalidate, Window: w})
	passive.windowOp(bind)
	refused("bind of a bound window", bind)
	passive.invalidate(w)
	refused("second invalidate", rdma.Request{Op: rdma.OpInvalidate, Window: w})
	active.deliver(passive)
}

// windowEnds checks that the end of a connection ends its bindings, and that the windows
// can be bound again.
func windowEnds(r *rig) {
	active, passive := r.pair(shape{})
	w := passive.window()
	old := passive.bind(w, 0, 64, allowWrite)
	r.closeNow("connector", active.conn)
	r.ends("the window's side", passive.conn)
	r.closeNow("queue pair", passive.qp)
	r.closeNow("region", passive.region)

	again := r.end(passive.adapter, shape{})
	from := r.end(active.adapter, shape{})
	r.join(from, again)
	fill(from.mem)
	at := again.bind(w, 0, 64, allowWrite)
	if at.Token == old.Token {
		r.Error("the token is used again")
	}
	from.post(rdma.Request{Op: rdma.OpWrite, SGL: from.sge(0, 64), Remote: at})
	from.deliver(again)
	if !same(again.mem[:64], from.mem[:64]) {
		r.Error("the window does not work on another connection")
	}
}

// windowAims are the ways in which a window does not grant access to n bytes.
var windowAims = []struct {
	what   string
	rights rdma.Flags // 0 for every right but the one that the peer needs
	aim    func(p *end, w rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr
}{
	{"one byte past the end", allowRead | allowWrite, func(_ *end, _ rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr {
		at.Addr += 57
		return at
	}},
	{"one byte before", allowRead | allowWrite, func(_ *end, _ rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr {
		at.Addr--
		return at
	}},
	{"no right", 0, func(_ *end, _ rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr { return at }},
	{"invalidated", allowRead | allowWrite, func(p *end, w rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr {
		p.invalidate(w)
		return at
	}},
	{"bound again", allowRead | allowWrite, func(p *end, w rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr {
		p.invalidate(w)
		p.bind(w, 64, 64, allowRead|allowWrite)
		return at
	}},
	{"closed", allowRead | allowWrite, func(p *end, w rdma.MemoryWindow, at rdma.RemoteAddr) rdma.RemoteAddr {
		p.r.closeNow("window", w)
		return at
	}},
	{"of another connection", allowRead | allowWrite, func(p *end, _ rdma.MemoryWindow, _ rdma.RemoteAddr) rdma.RemoteAddr {
		from, other := p.r.end(p.r.adapter(), shape{}), p.r.end(p.adapter, shape{})
		p.r.join(from, other)
		other.region = p.region
		return other.bind(other.window(), 64, 64, allowRead|allowWrite)
	}},
}

func windowWriteViolations(r *rig) {
	for _, c := range windowAims {
		rights := c.rights
		if rights == 0 {
			rights = allowRead
		}
		r.violates(c.what, shape{}, 8, func(p *end) rdma.RemoteAddr {
			w := p.window()
			return c.aim(p, w, p.bind(w, 64, 64, rights))
		})
	}
}

func windowReadViolations(r *rig) {
	for _, c := range windowAims {
		rights := c.rights
		if rights == 0 {
			rights = allowWrite
		}
		r.readViolates(c.what, readable, 8, func(p *end) rdma.RemoteAddr {
			w := p.window()
			return c.aim(p, w, p.bind(w, 64, 64, rights))
		})
	}
}

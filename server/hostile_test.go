package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/evict"
	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// Violations end the connection, before AUTH and after it; other connections go on.
//
// Source: [OP-27] [OP-50d] [OP-63] [OP-92e] [OP-92h] [LWIO §Write]
func TestViolationsEndConnection(t *testing.T) { onEach(t, testViolationsEndConnection) }

func testViolationsEndConnection(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{MaxRecvBufferSize: 8192}})
	other := v.client()
	o := v.file("a", content(100))
	message := func(h wire.Header, body int) func(c *rawClient, fid uint16) []byte {
		return func(c *rawClient, fid uint16) []byte {
			h := h
			h.Fid, h.Cookie = fid, 1
			return append(h.AppendTo(nil), make([]byte, body)...)
		}
	}
	with := func(h wire.Header, change func(*wire.Header)) wire.Header {
		change(&h)
		return h
	}
	for _, r := range []struct {
		name   string
		before bool // AUTH
		msg    func(c *rawClient, fid uint16) []byte
	}{
		{"READ before AUTH", true, message(wire.Header{Flags: 0x80, Length: 10}, 0)},
		{"REGISTER before AUTH", true, message(with(controlHeader(wire.OpRegister, 0), func(h *wire.Header) { h.Length = 84 }), 36)},
		{"garbage before AUTH", true, func(*rawClient, uint16) []byte { return content(500) }},
		{"a few bytes before AUTH", true, func(*rawClient, uint16) []byte { return content(10) }},
		{"nothing before AUTH", true, func(*rawClient, uint16) []byte { return nil }},
		{"AUTH without INTERRUPT", true, message(wire.Header{Opcode: wire.OpAuth, Length: 115}, 67)},
		{"AUTH of a wrong length", true, message(wire.Header{Opcode: wire.OpAuth, Flags: 0x80, Length: 116}, 67)},
		{"AUTH of the header alone", true, message(wire.Header{Opcode: wire.OpAuth, Flags: 0x80, Length: 48}, 0)},
		{"second AUTH", false, message(wire.Header{Opcode: wire.OpAuth, Flags: 0x80, Length: 115}, 67)},
		{"47 bytes", false, func(*rawClient, uint16) []byte { return make([]byte, 47) }},
		{"no bytes", false, func(*rawClient, uint16) []byte { return nil }},
		{"unknown opcode without INTERRUPT", false, message(wire.Header{Opcode: 0x77}, 0)},
		{"CLOSE without INTERRUPT", false, message(wire.Header{Opcode: wire.OpClose, Length: 48}, 0)},
		{"INTERRUPT without INTERRUPT", false, message(wire.Header{Opcode: wire.OpInterrupt, Flags: 0x40, Length: 48}, 0)},
		{"CLOSE of a wrong length", false, message(with(controlHeader(wire.OpClose, 0), func(h *wire.Header) { h.Length = 0 }), 0)},
		{"CLOSE with a body", false, message(with(controlHeader(wire.OpClose, 0), func(h *wire.Header) { h.Length = 49 }), 1)},
		{"REGISTER cut off", false, message(with(controlHeader(wire.OpRegister, 0), func(h *wire.Header) { h.Length = 83 }), 35)},
		{"READ with a body", false, message(wire.Header{Flags: 0x80, Length: 10}, 1)},
		{"WRITE with less than it says", false, message(writeHeader(0, 0, 10), 9)},
		{"WRITE with more than it says", false, message(writeHeader(0, 0, 10), 11)},
		{"WRITE of a Length above the limit", false, message(writeHeader(0, 0, 1<<31), 8192)},
		{"WRITE above the limit", false, message(writeHeader(0, 0, 8193), 8193)},
		{"VEC_READ without its regions", false, message(wire.Header{Opcode: wire.OpVecRead, Flags: 0x80, Length: 1, NumPages: 3, PageSize: 4096}, 32)},
		{"collapsed VEC_WRITE of two pages", false, message(by(wire.NewCollapse(0, 0, 8192, 4096), completion{Cookie: 1}), 8192)},
	} {
		t.Run(r.name, func(t *testing.T) {
			v.in(t)
			n := v.negotiate(v.sess)
			c := v.connect(n)
			var fid uint16
			if !r.before {
				c.auth(n, authOptions{})
				fid = c.register(o)
			}
			c.raw(r.msg(c, fid))
			c.wantCut()
			v.check(other)
		})
	}
	eventually(t, "only one connection is left", func() bool { return v.e.count.connections.Load() == 1 })
	if v.e.count.files.Load() != 0 {
		t.Error("files of lost connections are left")
	}
}

// A peer that connects and says nothing is cut; before the provider's
// start-up, in the middle of that, and before AUTH.
//
// Source: [OP-44] [LWIO §Connection Authentication]
func TestSilentPeerIsCut(t *testing.T) { onEach(t, testSilentPeerIsCut) }

func testSilentPeerIsCut(t *testing.T, on string) {
	// A client that is not silent must pass in time, even on a slow machine.
	for limit := 500 * time.Millisecond; !silence(t, on, limit); limit *= 2 {
		if limit > patience {
			t.Fatalf("a client that says something does not pass AUTH within %v", limit)
		}
	}
}

// silence is TestSilentPeerIsCut with a limit until AUTH; false if it was too short for a client
// that sends AUTH at once.
func silence(t *testing.T, on string, limit time.Duration) bool {
	t.Helper()
	v := newEnv(t, envConfig{on: on, limits: Limits{AuthTimeout: limit}})
	n := v.negotiate(v.sess)
	dialSocket(t, n.addr).Write([]byte("MPA ID Re")) // half a request of iWARP's
	dialSocket(t, n.addr).Write(content(4000))
	c, err := v.tryConnect(n)
	if err != nil || !c.tryAuth(n, authOptions{}) {
		return false
	}
	silent, err := v.tryConnect(n)
	if err != nil {
		return false
	}
	silent.wantCut() // later than the time of c would be up
	v.check(c)
	return true
}

// dialSocket connects to the socket of a provider's address.
func dialSocket(t *testing.T, addr rdma.Addr) net.Conn {
	t.Helper()
	network, name := "tcp", addr.AddrPort.String()
	if addr.Name != "" {
		network, name = "unixpacket", "@"+addr.Name
	}
	nc, err := net.Dial(network, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// The log lines are limited that peers cause which are cut, or which leave before AUTH.
//
// Source: [LWIO §Connection Authentication]
func TestLogLinesOfCutPeersAreLimited(t *testing.T) { onEach(t, testLogLinesOfCutPeersAreLimited) }

func testLogLinesOfCutPeersAreLimited(t *testing.T, on string) {
	var log bytes.Buffer
	start := time.Now()
	v := newEnv(t, envConfig{on: on, log: slog.New(slog.NewTextHandler(&log, nil))})
	n := v.negotiate(v.sess)
	const peers = 20
	for range peers {
		c := v.connect(n)
		c.raw([]byte("nonsense"))
		c.wantCut()
		v.connect(n).connector.Close()
	}
	eventually(t, "the connections are gone", v.deserted)
	v.e.close()
	for _, kind := range []string{"connection cut", "connection lost"} {
		lines := strings.Count(log.String(), kind)
		if most := 1 + int(time.Since(start)/ratelimit.LogInterval); lines < 1 || lines > most {
			t.Errorf("%d lines \"%s\" about %d peers, want 1 to %d\n%s", lines, kind, peers, most, log.String())
		}
	}
}

// More requests than credits find no receive.
//
// Source: [LWIO §Credits] [OP-66] [OP-64]
func TestRequestBeyondCreditsEndsConnection(t *testing.T) {
	onEach(t, testRequestBeyondCreditsEndsConnection)
}

func testRequestBeyondCreditsEndsConnection(t *testing.T, on string) {
	b := newGate(t)
	v := newEnv(t, envConfig{on: on, backend: b, limits: Limits{Credits: 4}})
	other := v.client()
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.Credits = 4 }})
	b.make("a", content(100))
	fid := c.register(v.open("a", 3, 0, v.sess))
	b.shut()
	for range 4 {
		c.send(c.readHeader(fid, 0, 10, 0), nil)
	}
	eventually(t, "four reads are in progress", func() bool { return b.waiting() == 4 })
	c.send(c.readHeader(fid, 0, 10, 0), nil)
	c.wantCut()
	b.open()
	b.make("check.txt", []byte("x"))
	fid = other.register(v.open("check.txt", 1, 0, v.sess))
	other.want(ntstatus.Success, 1, other.readHeader(fid, 0, 10, 0), nil)
}

// A user above the request rate waits. Other users, and the end of the connection, do not wait.
func TestRequestRateThrottlesOneUser(t *testing.T) { onEach(t, testRequestRateThrottlesOneUser) }

func testRequestRateThrottlesOneUser(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	v.file("a", content(10))
	other := v.client()
	hasty := newFakeSession(7)
	hasty.pace = ratelimit.NewLimiter(1000, 0, 0)
	n := v.negotiate(hasty)
	c := v.connect(n)
	c.auth(n, authOptions{})
	o := v.open("a", vfs.ReadData, 0, hasty)
	fid := c.register(o)
	c.want(ntstatus.Success, 10, c.readHeader(fid, 0, 10, 0), nil)
	hasty.pace.Take(1<<40, 0)
	c.send(c.readHeader(fid, 0, 10, 0), nil)
	c.send(c.readHeader(fid, 0, 10, 0), nil)
	v.check(other)
	hasty.end()
	c.wantCut() // without an answer before
	v.check(other)
}

// The evicted connection is the oldest of the busiest host before AUTH, not the oldest of all.
//
// Source: [LWIO §Connection Authentication]
func TestOldestOfTheBusiestHostIsEvicted(t *testing.T) {
	var table connTable
	table.init(new(Limits), new(counters), evict.NewKnown())
	enter := func(host string) *conn {
		table.arrived++
		c := &conn{peer: peer{host: netip.MustParsePrefix(host)}, entry: connEntry{number: table.arrived}}
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
		table.all[c] = struct{}{}
		table.peers.Add(c, c.peer.host)
		return c
	}
	lone, known := enter("192.0.2.1/32"), enter("192.0.2.2/32")
	table.pass(known)
	first, second, third := enter("192.0.2.2/32"), enter("192.0.2.2/32"), enter("192.0.2.2/32")
	for i, want := range []*conn{first, second, lone, third} {
		table.displaceLocked()
		if !want.entry.displaced || want.ctx.Err() == nil {
			t.Fatalf("displacement %d took another", i)
		}
	}
	if known.entry.displaced {
		t.Error("an authenticated connection was evicted")
	}
}

// Displaced connections that are not gone take no place of other connections, but a bounded number of
// them is on its way out: the next connection waits until one is gone, and is not refused.
//
// Source: [LWIO §Connection Authentication]
func TestDisplacedConnectionsRefuseNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table connTable
		count := new(counters)
		table.init(&Limits{Connections: 3, Unauthenticated: 2, ConnectionsPerUser: 3}, count, evict.NewKnown())
		conns := make([]*conn, 8)
		enter := func(i int) bool {
			conns[i] = &conn{}
			conns[i].ctx, conns[i].cancel = context.WithCancelCause(t.Context())
			return table.enter(conns[i], func() {})
		}
		for i := range 4 { // the first two are displaced, and stay
			if !enter(i) {
				t.Fatalf("connection %d is refused", i)
			}
		}
		entered := make(chan bool, 1)
		go func() { entered <- enter(4) }()
		synctest.Wait()
		if len(entered) != 0 || count.displaced.Load() != 2 || count.connections.Load() != 2 {
			t.Errorf("%d displaced, %d others", count.displaced.Load(), count.connections.Load())
		}
		table.leave(conns[0])
		if !<-entered {
			t.Error("a connection is refused after another was gone")
		}
		// Authenticated ones are never displaced, and displaced ones do not count with them.
		for i := 5; i < 7; i++ {
			table.pass(conns[i-1])
			table.leave(conns[1])
			conns[1] = conns[i-3]
			if !enter(i) {
				t.Fatalf("connection %d is refused", i)
			}
		}
		table.pass(conns[6])
		if enter(7) {
			t.Error("a connection is let in beside the limit of authenticated ones")
		}
		for c := range table.all {
			table.leave(c)
		}
		if count.displaced.Load() != 0 || count.connections.Load() != 0 || count.unauthenticated.Load() != 0 {
			t.Errorf("%d displaced, %d others are left", count.displaced.Load(), count.connections.Load())
		}
	})
}

// Source: [LWIO §Connection Authentication]
func TestUnauthenticatedConnectionsAreEvictedFirst(t *testing.T) {
	onEach(t, testUnauthenticatedConnectionsAreEvictedFirst)
}

func testUnauthenticatedConnectionsAreEvictedFirst(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{Unauthenticated: 2, Connections: 4}})
	n := v.negotiate(v.sess)
	good := v.connect(n)
	good.auth(n, authOptions{})
	silent := []*rawClient{v.connect(n), v.connect(n), v.connect(n)}
	silent[0].wantCut() // the oldest is evicted
	v.check(good)
	silent[1].auth(n, authOptions{})
	silent[2].auth(n, authOptions{})
	eventually(t, "the cut one is gone", func() bool { return v.e.count.connections.Load() == 3 })
	v.connect(n).auth(n, authOptions{})
	if c, err := v.tryConnect(n); err == nil {
		c.wantCut() // rejected after the client had connected
	}
	if got := v.e.count.rejected.Load(); got != 1 {
		t.Errorf("%d rejected", got)
	}
	if got := v.e.count.unauthenticated.Load(); got != 0 {
		t.Errorf("%d connections are counted as not authenticated", got)
	}
	v.check(good)
}

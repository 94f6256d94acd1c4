package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// wantDenied sends an AUTH that must be answered with ACCESS_DENIED and nothing
// else, after which the connection ends.
//
// Source: [OP-50c]
func (c *rawClient) wantDenied(msg []byte) {
	c.t.Helper()
	c.wantRefused(msg, ntstatus.AccessDenied)
}

// wantRefused is wantDenied with another status.
func (c *rawClient) wantRefused(msg []byte, status ntstatus.Status) {
	c.t.Helper()
	mark := bytes.Repeat([]byte{0xEE}, 512)
	copy(c.in.Bytes(), mark)
	c.raw(msg)
	s := c.reply()
	if s.Cookie != 77 || s.Status != uint32(status) || s.Information != 0 {
		c.t.Fatalf("AUTH: %v, information %d", ntstatus.Status(s.Status), s.Information)
	}
	c.wantCut()
	if !bytes.Equal(c.in.Bytes()[:512], mark) {
		c.t.Fatal("a refused client got the server's parameters")
	}
}

// Each defect of an AUTH is refused.
//
// Source: [LWIO §Connection Authentication] [LWIO claim 12] [OP-13] [OP-28] [OP-44]
// [OP-45] [OP-46b] [OP-50a] [OP-50b] [OP-50c] [OP-50g] [OP-50h]
func TestAuthRefused(t *testing.T) { onEach(t, testAuthRefused) }

func testAuthRefused(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	other := v.client()
	flip := func(at int) func([]byte) []byte {
		return func(msg []byte) []byte {
			msg[len(msg)+at] ^= 1
			return msg
		}
	}
	for _, r := range []struct {
		name string
		o    authOptions
	}{
		{"wrong key", authOptions{mutate: func(p *wire.AuthParams) { p.Key = &[16]byte{1} }}},
		{"wrong MD5", authOptions{after: flip(-2)}},
		{"damaged parameters", authOptions{after: func(msg []byte) []byte { msg[48+16] ^= 1; return msg }}},
		{"no MAC", authOptions{unkeyed: true}},
		{"header changed", authOptions{after: func(msg []byte) []byte { msg[24] ^= 1; return msg }}},
		{"revision", authOptions{mutate: func(p *wire.AuthParams) { p.RevID = 0x1002 }}},
		{"pointers of 16 bytes", authOptions{mutate: func(p *wire.AuthParams) { p.Endian = 16 }}},
		{"pages of 256 bytes", authOptions{mutate: func(p *wire.AuthParams) { p.PageSize = 256 }}},
		{"pages of 5000 bytes", authOptions{mutate: func(p *wire.AuthParams) { p.PageSize = 5000 }}},
		{"headers of 56 bytes", authOptions{mutate: func(p *wire.AuthParams) { p.HeaderSize = 56 }}},
		{"window below the parameters", authOptions{mutate: func(p *wire.AuthParams) { p.MaxRdmaWindowSize = 511 }}},
		{"receives below an answer", authOptions{mutate: func(p *wire.AuthParams) { p.MaxRecvBufferSize = 15 }}},
		{"no key", authOptions{mutate: func(p *wire.AuthParams) { p.Key = nil }}},
		{"no signature", authOptions{mutate: func(p *wire.AuthParams) { p.Signature = nil }}},
		{"bad magic", authOptions{after: func(msg []byte) []byte { msg[48] = 'l'; return msg }}},
		{"no end of options", authOptions{after: func(msg []byte) []byte { return relength(msg[:len(msg)-1]) }}},
		{"bytes after the end", authOptions{after: func(msg []byte) []byte { return relength(append(msg, 0)) }}},
		{"unknown flags", authOptions{after: func(msg []byte) []byte { msg[5] |= 1; return msg }}},
	} {
		t.Run(r.name, func(t *testing.T) {
			v.in(t)
			n := v.negotiate(v.sess)
			c := v.connect(n)
			msg, _ := c.authMessage(n, r.o)
			c.wantDenied(msg)
			v.check(other)
		})
	}
	t.Run("MAC with another key", func(t *testing.T) {
		v.in(t)
		n := v.negotiate(v.sess)
		c := v.connect(n)
		rand.Read(n.authKey)
		msg, _ := c.authMessage(n, authOptions{})
		c.wantDenied(msg)
	})
	if got := v.e.count.authFailures.Load(); got != 19 {
		t.Errorf("%d failures counted", got)
	}
}

// relength writes the length of an AUTH into its header. Its MAC is wrong then, but the server
// checks the tested part first.
func relength(msg []byte) []byte {
	msg[0], msg[1] = byte(len(msg)), byte(len(msg)>>8)
	return msg
}

// A nonce that was seen under the pair is refused, and so is a whole message
// that is sent again; a fresh one is good on several connections.
//
// Source: [OP-42b] [OP-46b]
func TestNonceIsAcceptedOnce(t *testing.T) { onEach(t, testNonceIsAcceptedOnce) }

func testNonceIsAcceptedOnce(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	first := v.connect(n)
	nonce := [16]byte{9}
	first.auth(n, authOptions{nonce: &nonce})
	again := v.connect(n)
	msg, _ := again.authMessage(n, authOptions{nonce: &nonce})
	again.wantDenied(msg)
	third := v.connect(n)
	third.auth(n, authOptions{})
	if third.sessionID == first.sessionID {
		t.Error("two connections have one SessionId")
	}
	v.check(first)
	v.check(third)
}

// Source: [OP-42b]
func TestConnectionsPerKeyAreLimited(t *testing.T) { onEach(t, testConnectionsPerKeyAreLimited) }

func testConnectionsPerKeyAreLimited(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{ConnectionsPerKey: 2}})
	n := v.negotiate(v.sess)
	var cs []*rawClient
	for range 2 {
		c := v.connect(n)
		c.auth(n, authOptions{})
		cs = append(cs, c)
	}
	c := v.connect(n)
	msg, _ := c.authMessage(n, authOptions{})
	c.wantDenied(msg)
	cs[0].connector.Close()
	eventually(t, "a place comes free", func() bool { return v.e.count.authenticated.Load() == 1 })
	c = v.connect(n)
	c.auth(n, authOptions{})
	v.check(c)
	v.check(cs[1])
}

// The text's own AUTH, where it is allowed; the keyed one is good there too, and
// is not ignored if it is wrong.
//
// Source: [LWIO §Connection Authentication] [OP-45] [OP-46b]
func TestAllowMD5(t *testing.T) { onEach(t, testAllowMD5) }

func testAllowMD5(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, allowMD5: true})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{unkeyed: true})
	if c.params.Keyed != nil {
		t.Error("the server answers with an option that the client did not send")
	}
	v.check(c)
	c = v.connect(n)
	c.auth(n, authOptions{})
	v.check(c)
	c = v.connect(n)
	rand.Read(n.authKey)
	msg, _ := c.authMessage(n, authOptions{})
	c.wantDenied(msg)
}

// A session without an application key has no secret: a MAC with a key of zeros is refused.
//
// Source: [OP-46b]
func TestNoApplicationKey(t *testing.T) { onEach(t, testNoApplicationKey) }

func testNoApplicationKey(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	sess := newFakeSession(2)
	sess.app = [16]byte{}
	n := v.negotiate(sess)
	for _, key := range [][]byte{n.authKey, nil, make([]byte, 16), make([]byte, 32)} {
		n.authKey = key
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{})
		c.wantDenied(msg)
	}
}

// The server ignores messages after an AUTH that it refused, though there are receives for them.
//
// Source: [OP-50d]
func TestSecondAuthIsIgnored(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "no provider has that")
	}
	v := newEnv(t, envConfig{on: "shm"})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	wrong, _ := c.authMessage(n, authOptions{unkeyed: true})
	right, _ := c.authMessage(n, authOptions{})
	both := make([]rdma.Request, 2)
	for i, msg := range [][]byte{wrong, right} {
		copy(c.out.Bytes()[i<<10:], msg)
		both[i] = rdma.Request{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: c.out, Offset: i << 10, Length: len(msg)}}}
	}
	if n, err := c.qp.Post(both); n != 2 {
		t.Fatal(err)
	}
	if s := c.reply(); s.Status != uint32(ntstatus.AccessDenied) {
		t.Errorf("AUTH: %v", ntstatus.Status(s.Status))
	}
	c.wantCut()
	if s := v.e.count.snapshot(); s.AuthFailures != 1 || s.Authenticated != 0 {
		t.Errorf("%d refused, %d taken in", s.AuthFailures, s.Authenticated)
	}
}

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

// The log lines that cut peers cause are limited.
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
	}
	v.e.close()
	lines := strings.Count(log.String(), "connection cut")
	if most := 1 + int(time.Since(start)/ratelimit.LogInterval); lines < 1 || lines > most {
		t.Errorf("%d lines about %d peers, want 1 to %d\n%s", lines, peers, most, log.String())
	}
}

// More requests than credits find no receive.
//
// Source: [LWIO §Credits] [OP-66] [OP-64]
func TestCreditOverrun(t *testing.T) { onEach(t, testCreditOverrun) }

func testCreditOverrun(t *testing.T, on string) {
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

// A user whose requests come too fast waits, and holds up neither others nor the end of the own
// connection.
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

// The evicted connection is the oldest of the host with most connections before AUTH, not the
// oldest of all.
//
// Source: [LWIO §Connection Authentication]
func TestOldestOfTheBusiestHostIsEvicted(t *testing.T) {
	var table connTable
	table.init(new(Limits), new(counters))
	enter := func(host string) *conn {
		table.arrived++
		c := &conn{peer: peer{host: netip.MustParseAddr(host)}, place: place{number: table.arrived}}
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
		table.all[c] = struct{}{}
		return c
	}
	lone, known := enter("192.0.2.1"), enter("192.0.2.2")
	known.auth.passed = true
	first, second, third := enter("192.0.2.2"), enter("192.0.2.2"), enter("192.0.2.2")
	for i, want := range []*conn{first, second, lone, third} {
		table.displaceLocked()
		if !want.place.displaced || want.ctx.Err() == nil {
			t.Fatalf("displacement %d took another", i)
		}
	}
	if known.place.displaced {
		t.Error("an authenticated connection was evicted")
	}
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

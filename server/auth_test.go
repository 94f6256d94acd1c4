package server

import (
	"bytes"
	"crypto/rand"
	"runtime"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
)

// wantDenied sends an AUTH. It demands the answer ACCESS_DENIED and then the end of the connection.
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
func TestDefectiveAuthIsRefused(t *testing.T) { onEach(t, testDefectiveAuthIsRefused) }

func testDefectiveAuthIsRefused(t *testing.T, on string) {
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
		{"no binding", authOptions{unbound: true}},
		{"binding of another fabric", authOptions{mutate: func(p *wire.AuthParams) {
			other := (&wire.ConnectionStart{}).Binding("other")
			p.Binding = &other
		}}},
		{"binding changed", authOptions{mutate: func(p *wire.AuthParams) { p.Binding[31] ^= 1 }}},
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
	if got := v.e.count.authFailures.Load(); got != 22 {
		t.Errorf("%d failures counted", got)
	}
}

// relength writes the length of an AUTH into its header. Its MAC is wrong then, but the server
// checks the tested part first.
func relength(msg []byte) []byte {
	msg[0], msg[1] = byte(len(msg)), byte(len(msg)>>8)
	return msg
}

// An AUTH is accepted on the connection that it was made for. Another client that has copied it and
// sends it first, on a connection of its own, is refused, and the owner of the AUTH is served. The
// AUTH is refused again when its connection has ended.
//
// Source: [OP-42b] [OP-46b] [OP-46c]
func TestCopiedAuthIsRefusedOnOtherConnection(t *testing.T) {
	onEach(t, testCopiedAuthIsRefusedOnOtherConnection)
}

func testCopiedAuthIsRefusedOnOtherConnection(t *testing.T, on string) {
	for _, allowMD5 := range []bool{false, true} {
		v := newEnv(t, envConfig{on: on, allowMD5: allowMD5})
		n := v.negotiate(v.sess)
		owner := v.connect(n)
		msg, _ := owner.authMessage(n, authOptions{})
		v.connect(n).wantDenied(msg)
		owner.auth(n, authOptions{})
		v.check(owner)
		owner.connector.Close()
		eventually(t, "the connection ends", func() bool { return v.e.count.authenticated.Load() == 0 })
		v.connect(n).wantDenied(msg)
	}
}

// Each connection has a nonce and a SessionId of its own, and several share a key pair.
//
// Source: [OP-42b] [OP-46c] [OP-50i]
func TestConnectionsDifferInNonceAndSessionID(t *testing.T) {
	onEach(t, testConnectionsDifferInNonceAndSessionID)
}

func testConnectionsDifferInNonceAndSessionID(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	first, second := v.connect(n), v.connect(n)
	first.auth(n, authOptions{})
	second.auth(n, authOptions{})
	if first.binding() == second.binding() {
		t.Error("two connections have one nonce")
	}
	if first.sessionID == second.sessionID {
		t.Error("two connections have one SessionId")
	}
	v.check(first)
	v.check(second)
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
func TestAllowMD5AcceptsUnkeyedAuth(t *testing.T) { onEach(t, testAllowMD5AcceptsUnkeyedAuth) }

func testAllowMD5AcceptsUnkeyedAuth(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, allowMD5: true})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{unkeyed: true})
	if c.params.Keyed != nil {
		t.Error("the server answers with an option that the client did not send")
	}
	v.check(c)
	for _, o := range []authOptions{{}, {unbound: true}} {
		c = v.connect(n)
		c.auth(n, o)
		v.check(c)
	}
	c = v.connect(n)
	rand.Read(n.authKey)
	msg, _ := c.authMessage(n, authOptions{})
	c.wantDenied(msg)
}

// A session without an application key has no secret: a MAC with a key of zeros is refused.
//
// Source: [OP-46b]
func TestAuthWithoutApplicationKeyIsRefused(t *testing.T) {
	onEach(t, testAuthWithoutApplicationKeyIsRefused)
}

func testAuthWithoutApplicationKeyIsRefused(t *testing.T, on string) {
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

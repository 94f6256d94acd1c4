package fileio

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// A server that gets AUTH wrong is never used, and the client says why.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-45] to [OP-50j]
func TestClientRefusesWrongAuthAnswer(t *testing.T) { onEach(t, testClientRefusesWrongAuthAnswer) }

func testClientRefusesWrongAuthAnswer(t *testing.T, on string) {
	type set func(s *rawServer)
	params := func(f func(p *wire.AuthParams)) set { return func(s *rawServer) { s.params = f } }
	signed := func(f func(b []byte) []byte) set { return func(s *rawServer) { s.signed = f } }
	reply := func(info func(n uint32) uint32, status uint32) set {
		return func(s *rawServer) {
			s.authReply = func(n, _ uint32) (uint32, uint32) { return info(n), status }
		}
	}
	same := func(n uint32) uint32 { return n }
	for _, c := range []struct {
		name string
		set  set
		is   error
		text string
	}{
		{"key of another client", params(func(p *wire.AuthParams) { p.Key[3] ^= 1 }), base.ErrSpoofed, "key"},
		{"one bit of the options", signed(func(b []byte) []byte { b[40] ^= 1; return b }), nil, ""},
		{"wrong signature", signed(flipSignature), base.ErrSpoofed, "signature"},
		{"no signature", signed(dropSignature), nil, ""},
		{"wrong MAC key", func(s *rawServer) { s.macKey = []byte("something else") }, base.ErrSpoofed, "session key"},
		{"MAC of another nonce", func(s *rawServer) { s.echo = func(n [16]byte) [16]byte { n[0] ^= 1; return n } }, base.ErrSpoofed, "session key"},
		{"MD5 alone", params(func(p *wire.AuthParams) { p.Keyed = nil }), nil, "MD5"},
		{"text alone", func(s *rawServer) { s.textOnly = true }, nil, "bind"},
		{"no nonce of the connection", func(s *rawServer) { s.unbound = true }, nil, "bind"},
		{"AUTH not bound", params(func(p *wire.AuthParams) { p.Binding = nil }), nil, "bind"},
		{"bound to another connection", params(func(p *wire.AuthParams) { p.Binding = &[wire.BindingSize]byte{1} }), base.ErrSpoofed, "connection"},
		{"access denied", reply(func(uint32) uint32 { return 0 }, uint32(ntstatus.AccessDenied)), ntstatus.AccessDenied, "did not accept"},
		{"another status", reply(same, uint32(ntstatus.InsufficientResources)), ntstatus.InsufficientResources, ""},
		{"size below the fixed part", reply(func(uint32) uint32 { return 37 }, 0), base.ErrProtocol, ""},
		{"size 0", reply(func(uint32) uint32 { return 0 }, 0), base.ErrProtocol, ""},
		{"size above the buffer", reply(func(uint32) uint32 { return 521 }, 0), base.ErrProtocol, ""},
		{"huge size", reply(func(uint32) uint32 { return 0xFFFFFFFF }, 0), base.ErrProtocol, ""},
		{"cut short", reply(func(n uint32) uint32 { return n - 1 }, 0), nil, ""},
		{"without the plus eight", reply(func(n uint32) uint32 { return n - 8 }, 0), nil, ""},
		{"one byte more", reply(func(n uint32) uint32 { return n + 1 }, 0), nil, ""},
		{"no credits", params(func(p *wire.AuthParams) { p.Credits = 0 }), base.ErrProtocol, "credits"},
		{"more credits than asked for", params(func(p *wire.AuthParams) { p.Credits = 0xFFFF }), base.ErrProtocol, "credits"},
		{"another revision", params(func(p *wire.AuthParams) { p.RevID = 0x1002 }), nil, ""},
		{"another header", params(func(p *wire.AuthParams) { p.HeaderSize = 56 }), nil, ""},
		{"another size of pointers", params(func(p *wire.AuthParams) { p.Endian = 3 }), nil, ""},
		{"an odd page", params(func(p *wire.AuthParams) { p.PageSize = 4097 }), nil, ""},
		{"sequence not increased", params(func(p *wire.AuthParams) { p.BaseSequence = 0 }), base.ErrProtocol, "sequence"},
		{"no window", params(func(p *wire.AuthParams) { p.MaxRdmaWindowSize = 0 }), base.ErrProtocol, ""},
		{"no room for writes", params(func(p *wire.AuthParams) { p.MaxRecvBufferSize = 0 }), base.ErrProtocol, ""},
		{"more than the buffer", signed(func(b []byte) []byte { return append(b, make([]byte, wire.AuthBufferSize)...) }), net.ErrClosed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRawServer(t, on, newFakeShare())
			c.set(s)
			_, err := s.dial(&base.Config{RequireRDMA: true})
			if err == nil || !errors.Is(err, base.ErrNoRDMA) || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v", err)
			}
			// Without RequireRDMA the client falls back, and says why.
			fallback, err := s.dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			if tr := fallback.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, "authenticate") {
				t.Errorf("transport %v", tr)
			}
		})
	}
}

// optionsOf gives the places of the options in AUTH parameters, by code.
func optionsOf(b []byte) map[byte]int {
	at := map[byte]int{}
	const fixedSize = 30 // of AUTH_PARAMS before its options
	for i := fixedSize; b[i] != 0; i += 2 + int(b[i+1]) {
		at[b[i]] = i
	}
	return at
}

func flipSignature(b []byte) []byte {
	b[optionsOf(b)[3]+2] ^= 1
	return b
}

func dropSignature(b []byte) []byte {
	i := optionsOf(b)[3]
	return append(b[:i:i], b[i+18:]...)
}

// Source: [LWIO §Connection Authentication], [OP-46b]
func TestAuthWithMD5Allowed(t *testing.T) { onEach(t, testAuthWithMD5Allowed) }

func testAuthWithMD5Allowed(t *testing.T, on string) {
	s := newRawServer(t, on, newFakeShare())
	s.textOnly = true
	c := s.connect(base.Config{AllowMD5: true})
	if tr := c.Transport(); tr.Keyed || !strings.Contains(tr.Reason, "MD5") {
		t.Errorf("transport %+v", tr)
	}
	// A server with a keyed signature, and without a nonce of the connection.
	s = newRawServer(t, on, newFakeShare())
	s.unbound = true
	if tr := s.connect(base.Config{AllowMD5: true}).Transport(); !tr.Keyed {
		t.Errorf("transport %+v", tr)
	}
	// A keyed signature that is there must be right even then.
	s = newRawServer(t, on, newFakeShare())
	s.macKey = []byte("something else")
	if _, err := s.dial(&base.Config{AllowMD5: true, RequireRDMA: true}); !errors.Is(err, base.ErrSpoofed) {
		t.Errorf("%v", err)
	}
	// A dialect without an application key.
	s = newRawServer(t, on, newFakeShare())
	s.textOnly = true
	s.sess.appKey = nil
	if _, err := s.dial(&base.Config{RequireRDMA: true}); !errors.Is(err, base.ErrNoRDMA) {
		t.Errorf("%v", err)
	}
	s.connect(base.Config{AllowMD5: true})
}

// Source: [OP-44]
func TestDialFailsWithoutAuthAnswer(t *testing.T) { onEach(t, testDialFailsWithoutAuthAnswer) }

func testDialFailsWithoutAuthAnswer(t *testing.T, on string) {
	s := newRawServer(t, on, newFakeShare())
	s.handle = func(*rawConn, wire.Header, []byte) bool { return true }
	_, err := s.dial(&base.Config{RequireRDMA: true, Timeout: 100 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Source: [LWIO §Network Discovery], [OP-35] to [OP-40]
func TestNegotiateRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *rawServer)
		text string
	}{
		"LWIO off":          {func(s *rawServer) { s.sess.noLWIO = true }, "LWIO is off"},
		"nothing in common": {func(s *rawServer) { s.sess.offers = nil }, "no RDMA provider in common"},
		"not offered":       {func(s *rawServer) { s.sess.offers[0].Name = "ib" }, "not offered"},
		"garbage":           {func(s *rawServer) { s.sess.mangle = func(b []byte) []byte { b[0] = 'X'; return b } }, "negotiate"},
		"cut short":         {func(s *rawServer) { s.sess.mangle = func(b []byte) []byte { return b[:len(b)-1] } }, "negotiate"},
		"nothing":           {func(s *rawServer) { s.sess.mangle = func([]byte) []byte { return nil } }, "negotiate"},
		"no address":        {func(s *rawServer) { s.sess.offers[0].Instances = nil }, "names no address"},
		"odd address":       {func(s *rawServer) { s.sess.offers[0].Instances[0].HostAddress = []byte{1, 2, 3} }, "address of 3 bytes"},
		"odd port":          {func(s *rawServer) { s.sess.offers[0].Instances[0].Discriminator = []byte{1} }, "port of 1 bytes"},
		"no listener":       {func(s *rawServer) { s.sess.offers[0].Instances[0].Discriminator = []byte{0, 1} }, "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, "iwarp", newFakeShare())
			c.set(s)
			if _, err := s.dial(&base.Config{RequireRDMA: true}); !errors.Is(err, base.ErrNoRDMA) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
			fallback, err := s.dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			if tr := fallback.Transport(); tr.Name != base.TransportSMB || !strings.Contains(tr.Reason, c.text) {
				t.Errorf("transport %v", tr)
			}
		})
	}
}

// The next address is tried when one does not answer.
//
// Source: [OP-40]
func TestNextAddressIsTriedAfterFailure(t *testing.T) {
	s := newRawServer(t, "iwarp", newFakeShare())
	good := s.sess.offers[0].Instances[0]
	bad := wire.NetAddress{HostAddress: good.HostAddress, Discriminator: []byte{0, 1}}
	s.sess.offers[0].Instances = []wire.NetAddress{bad, good}
	s.connect(base.Config{})
}

// A message that no server may send ends the connection, and nothing else.
//
// Source: [OP-73], [OP-69], [OP-20]
func TestHostileAnswerEndsConnection(t *testing.T) { onEach(t, testHostileAnswerEndsConnection) }

func testHostileAnswerEndsConnection(t *testing.T, on string) {
	for name, answer := range map[string]func(c *rawConn, h wire.Header){
		"unknown cookie":              func(c *rawConn, _ wire.Header) { c.status(1<<63|9999, 1, 0) },
		"cookie of an unused request": func(c *rawConn, h wire.Header) { c.status(h.Cookie+1, 1, 0) },
		"old cookie":                  func(c *rawConn, h wire.Header) { c.status(h.Cookie-1<<indexBits, 1, 0) },
		"answer twice": func(c *rawConn, h wire.Header) {
			c.status(h.Cookie, 0, uint32(ntstatus.DiskFull))
			c.status(h.Cookie, 0, uint32(ntstatus.DiskFull))
		},
		"more bytes than asked for": func(c *rawConn, h wire.Header) { c.status(h.Cookie, h.Length+1, 0) },
		"short message":             func(c *rawConn, _ wire.Header) { c.send(make([]byte, 15)) },
		"long message":              func(c *rawConn, _ wire.Header) { c.send(make([]byte, 17)) },
		"empty message":             func(c *rawConn, _ wire.Header) { c.send([]byte{}[:0:0]) },
		"delta without its status":  func(c *rawConn, _ wire.Header) { c.status(0, 1, 0) },
		"all credits taken back":    func(c *rawConn, _ wire.Header) { c.status(0, uint32(0xFFFFFFF0), wire.NotifyCredit) },
		"two deltas":                func(c *rawConn, _ wire.Header) { twoDeltas(c) },
		"write beyond the exposed memory": func(c *rawConn, h wire.Header) {
			c.write(h.DataVa, h.DataMh, make([]byte, int(h.Length)+1))
		},
		"write with a wrong handle": func(c *rawConn, h wire.Header) { c.write(h.DataVa, h.DataMh+1, make([]byte, 1)) },
		"a flood": func(c *rawConn, _ wire.Header) {
			for range 400 {
				c.status(5, 0, 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			share := newFakeShare()
			want := pattern(3000)
			share.put("f", want)
			s := newRawServer(t, on, share)
			s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
				if h.Opcode == wire.OpRead {
					answer(c, h)
					return true
				}
				return false
			}
			c := s.connect(base.Config{})
			f := openOn(t, c, "f")
			// The read ends in the answer that the server gave before it went wrong,
			// or goes on over SMB.
			p := make([]byte, len(want))
			if n, err := f.ReadAt(p, 0); (n != len(p) || err != nil || !bytes.Equal(p, want)) && !errors.Is(err, ntstatus.DiskFull) {
				t.Fatalf("%d, %v", n, err)
			}
			waitFor(t, func() bool { return !c.Transport().RDMA() })
			if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, want) {
				t.Fatalf("over SMB: %v", err)
			}
		})
	}
}

// twoDeltas takes back credits twice, so fast that the first transaction cannot be
// over: the first needs more credits than are free.
func twoDeltas(c *rawConn) {
	for range 8 {
		c.status(0, uint32(0xFFFFFFFF-13), wire.NotifyCredit)
	}
}

// A server that answers success with no bytes does not make the client spin.
func TestSuccessWithoutBytes(t *testing.T) { onEach(t, testSuccessWithoutBytes) }

func testSuccessWithoutBytes(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(3000))
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead {
			c.status(h.Cookie, 0, 0)
			return true
		}
		return false
	}
	f := openOn(t, s.connect(base.Config{}), "f")
	for _, n := range []int{10, 3000} {
		if _, err := f.ReadAt(make([]byte, n), 0); !errors.Is(err, base.ErrProtocol) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// A server that gives a little at a time is asked again.
//
// Source: [OP-92a]
func TestShortAnswers(t *testing.T) { onEach(t, testShortAnswers) }

func testShortAnswers(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(200_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead || h.Length <= 700 {
			return false
		}
		h.Length = h.Length/2 + 1
		c.answer(h, body)
		return true
	}
	f := openOn(t, s.connect(base.Config{}), "f")
	for _, n := range []int{1000, 5000, len(want)} {
		p := make([]byte, n)
		if m, err := f.ReadAt(p, 0); m != n || err != nil || !bytes.Equal(p, want[:n]) {
			t.Fatalf("%d: %d, %v", n, m, err)
		}
	}
}

// Fid 0 and Fids that do not fit end the connection.
//
// Source: [OP-54]
func TestHostileFid(t *testing.T) { onEach(t, testHostileFid) }

func testHostileFid(t *testing.T, on string) {
	for _, fid := range []uint32{0, 0x10000} {
		share := newFakeShare()
		share.put("f", []byte("hello"))
		s := newRawServer(t, on, share)
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode == wire.OpRegister {
				c.status(h.Cookie, fid, 0)
				return true
			}
			return false
		}
		c := s.connect(base.Config{})
		f := openOn(t, c, "f")
		if n, err := f.ReadAt(make([]byte, 5), 0); n != 5 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if c.Transport().RDMA() {
			t.Errorf("fid %d was taken", fid)
		}
	}
}

// Credits come and go while requests are in flight.
//
// Source: [LWIO §Credits], [OP-67] to [OP-74c], [LWIO claim 24]
func TestCreditTransactions(t *testing.T) { onEach(t, testCreditTransactions) }

func testCreditTransactions(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(400_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.grant = 8
	s.window = 4096
	c := s.connect(base.Config{Credits: 16})
	conn := <-s.accepted
	cn := c.Live()
	f := openOn(t, c, "f")
	read := func() {
		t.Helper()
		p := make([]byte, len(want))
		if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, want) {
			t.Errorf("read: %v", err)
		}
	}
	// change announces n credits more and returns the numbers of the CREDIT messages
	// that answer.
	change := func(n int32) (numbers []int32) {
		t.Helper()
		before := len(conn.seen(wire.OpCredit))
		conn.status(0, uint32(n), wire.NotifyCredit)
		waitFor(t, func() bool { return len(conn.seen(wire.OpCredit)) == before+max(1, int(-n)) })
		for _, h := range conn.seen(wire.OpCredit)[before:] {
			if uint32(h.Offset) != 0 || h.Length != wire.HeaderSize {
				t.Errorf("%+v", h)
			}
			numbers = append(numbers, h.CreditCount())
		}
		return numbers
	}
	for _, step := range []struct {
		n       int32
		grant   int
		numbers []int32
	}{
		{4, 12, []int32{0}},
		{10, 16, []int32{6}},
		{-5, 11, []int32{-5, -4, -3, -2, -1}},
		{0, 11, []int32{0}},
		{-10, 1, []int32{-10, -9, -8, -7, -6, -5, -4, -3, -2, -1}},
		{15, 16, []int32{0}},
	} {
		if got := change(step.n); !slices.Equal(got, step.numbers) {
			t.Errorf("%+v: CREDIT messages %v", step, got)
		}
		waitFor(t, func() bool { return grantedCredits(cn) == step.grant && freeCredits(cn) == step.grant })
		read()
	}
	// While everything is in use. A change begins when the one before is over: credits
	// that it takes back can be granted again only then.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			read()
		}
	}()
	grant := 16
	for _, n := range []int32{-15, 15, -3, 2, -14} {
		grant += int(n)
		change(n)
		waitFor(t, func() bool { return grantedCredits(cn) == grant })
	}
	<-done
	waitFor(t, func() bool { return grantedCredits(cn) == 1 && freeCredits(cn) == 1 })
	read()
}

// The server may change the grant as soon as it has answered AUTH, but only once.
//
// Source: [LWIO §Credits], [OP-65], [OP-98]
func TestCreditsRightAfterAuth(t *testing.T) { onEach(t, testCreditsRightAfterAuth) }

func testCreditsRightAfterAuth(t *testing.T, on string) {
	for _, tc := range []struct {
		change []int32
		grant  int // 0: the connection fails
	}{{[]int32{4}, 12}, {[]int32{-3}, 5}, {[]int32{-8}, 0}, {[]int32{1, 1}, 0}} {
		share := newFakeShare()
		share.put("f", pattern(1000))
		s := newRawServer(t, on, share)
		s.grant = 8
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode == wire.OpAuth {
				for _, n := range tc.change {
					c.status(0, uint32(n), wire.NotifyCredit)
				}
			}
			return false
		}
		c, err := s.dial(&base.Config{Credits: 16, RequireRDMA: true})
		if tc.grant == 0 {
			if !errors.Is(err, base.ErrProtocol) {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		cn := c.Live()
		waitFor(t, func() bool { return freeCredits(cn) == tc.grant && grantedCredits(cn) == tc.grant })
		f := openOn(t, c, "f")
		if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

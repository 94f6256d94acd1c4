package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/vfs"
	"lwio/vfs/posix"
)

func negotiateRequest(t testing.TB, change func(r *wire.NegotiateRequest)) []byte {
	t.Helper()
	r := wire.NegotiateRequest{
		ClientName: "there", Key: [16]byte{1, 2, 3}, ResponseLength: 0xFFFF,
		Providers: []wire.AddressBlock{{Name: "iwarp", Instances: []wire.NetAddress{{HostAddress: []byte{1}}}}},
	}
	if change != nil {
		change(&r)
	}
	b, err := r.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// offer negotiates with a client that has the named providers.
func (v *env) offer(names []string) wire.NegotiateResponse {
	v.t.Helper()
	out, err := v.e.association.Negotiate(v.t.Context(), v.sess, v.sess.app, negotiateRequest(v.t, func(r *wire.NegotiateRequest) {
		r.Providers = nil
		for _, name := range names {
			r.Providers = append(r.Providers, wire.AddressBlock{Name: name})
		}
	}), 0xFFFF)
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp
}

// Source: [LWIO §Discovery] [OP-30] [OP-32]
func TestResumeContextNamesThePipe(t *testing.T) { onEach(t, testResumeContextNamesThePipe) }

func testResumeContextNamesThePipe(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	b := v.e.association.ResumeContext()
	var u []uint16
	for i := 0; i < len(b); i += 2 {
		u = append(u, binary.LittleEndian.Uint16(b[i:]))
	}
	if got := string(utf16.Decode(u)); got != `\\here\pipe\lwio` {
		t.Errorf("context %q", got)
	}
	v.e.stopListening()
	if got := v.e.association.ResumeContext(); got != nil {
		t.Errorf("context %q from a server that takes no connections", got)
	}
}

// A server whose name cannot be part of a resume key's context and of NEGOTIATE is refused.
//
// Source: [LWIO §Discovery] [OP-16] [OP-32]
func TestNewRefusesServerNameThatIsNotText(t *testing.T) {
	dir, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "s", Backend: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for _, name := range []string{"a\x00b", "a\xffb", strings.Repeat("a", 257)} {
		if s, err := New(Config{FS: files, ServerName: name}); err == nil {
			s.Close()
			t.Errorf("a server named %q", name)
		}
	}
}

// Source: [LWIO §Network Discovery] [OP-37] [OP-38] [OP-38b] [OP-39]
func TestNegotiateListsCommonProviders(t *testing.T) {
	v := newEnv(t, envConfig{})
	for _, c := range []struct {
		name   string
		theirs []string
		want   int
	}{
		{"common", []string{"shm", "iwarp"}, 1},
		{"twice", []string{"iwarp", "iwarp"}, 1},
		{"other case", []string{"IWARP"}, 0},
		{"a prefix", []string{"iwar"}, 0},
		{"nothing in common", []string{"ib", "roce"}, 0},
		{"none", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := v.offer(c.theirs)
			if len(resp.Providers) != c.want || resp.ServerName != "here" || resp.Key == [16]byte{} {
				t.Fatalf("%+v", resp)
			}
			for _, p := range resp.Providers {
				port := binary.BigEndian.AppendUint16(nil, v.e.fabrics[0].addr.AddrPort.Port())
				if len(p.Instances) != 1 || len(p.Instances[0].HostAddress) != 0 ||
					!bytes.Equal(p.Instances[0].Discriminator, port) {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

// A server of several providers lists the common ones in its own order, each with the address that
// it listens at.
//
// Source: [LWIO §Network Discovery] [OP-38] [OP-38b] [OP-39]
func TestNegotiateListsInOrderOfTheServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "there is no second provider")
	}
	v := newEnv(t, envConfig{on: "shm"})
	if err := v.e.listen(t.Context(), []rdma.Provider{iwarp.New(nil)}, loopback); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ theirs, want []string }{
		{[]string{"iwarp", "shm"}, []string{"shm", "iwarp"}},
		{[]string{"ib", "iwarp"}, []string{"iwarp"}},
		{[]string{"shm", "shm"}, []string{"shm"}},
	} {
		resp := v.offer(c.theirs)
		var got []string
		for _, p := range resp.Providers {
			got = append(got, p.Name)
			v.on, v.provider = p.Name, providers[p.Name]()
			n := v.negotiateFor(v.sess, p.Name)
			conn := v.connect(n)
			conn.auth(n, authOptions{})
			v.check(conn)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.theirs, got, c.want)
		}
	}
}

// A server with RDMA addresses names all of them in the block of their provider, and a client can
// connect to each. An unspecified address is named by its port alone.
//
// Source: [LWIO §Network Discovery] [OP-38b] [OP-39]
func TestNegotiateNamesConfiguredAddresses(t *testing.T) {
	v := newEnv(t, envConfig{on: "iwarp", rdmaListen: []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.2:0"), netip.MustParseAddrPort("0.0.0.0:0"),
	}})
	resp := v.offer([]string{"iwarp"})
	if len(resp.Providers) != 1 || len(resp.Providers[0].Instances) != 3 {
		t.Fatalf("%+v", resp.Providers)
	}
	all := 0
	for _, f := range v.e.fabrics {
		all += len(f.buffers.bytes)
	}
	if all > DefaultReadBufferBytes {
		t.Errorf("the addresses have %d bytes of buffers together", all)
	}
	for i, want := range []netip.Addr{loopback, netip.MustParseAddr("127.0.0.2"), {}} {
		in := resp.Providers[0].Instances[i]
		at := loopback
		got, named := netip.AddrFromSlice(in.HostAddress)
		if named {
			at = got
		}
		if got != want || len(in.Discriminator) != 2 {
			t.Fatalf("instance %d: %v, want the address %v", i, in, want)
		}
		c, err := net.Dial("tcp", netip.AddrPortFrom(at, binary.BigEndian.Uint16(in.Discriminator)).String())
		if err != nil {
			t.Error(err)
			continue
		}
		c.Close()
	}
}

// A port that is in use fails the server, and nothing stays open.
func TestConfiguredPortInUseFailsServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).AddrPort()
	e := newEngine(&Config{RDMAListen: []netip.AddrPort{netip.AddrPortFrom(loopback, 0), taken}, Limits: Limits{}.withDefaults(), Logger: slog.New(slog.DiscardHandler)})
	defer e.close()
	if err := e.listen(t.Context(), []rdma.Provider{iwarp.New(nil)}, loopback); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen: %v", err)
	}
}

// Source: [LWIO §Network Discovery] [OP-36]
func TestNegotiateFitsIntoResponse(t *testing.T) {
	v := newEnv(t, envConfig{})
	const fixed, one = 542, 130 + 4 + 2
	for _, c := range []struct {
		response uint16
		max      int
		size     int // 0: refused
	}{
		{0xFFFF, 0xFFFF, fixed + one},
		{fixed + one, 0xFFFF, fixed + one},
		{fixed + one - 1, 0xFFFF, fixed},
		{0xFFFF, fixed + one - 1, fixed},
		{fixed, fixed, fixed},
		{fixed - 1, 0xFFFF, 0},
		{0xFFFF, fixed - 1, 0},
		{0, 0, 0},
	} {
		msg := negotiateRequest(t, func(r *wire.NegotiateRequest) { r.ResponseLength = c.response })
		out, err := v.e.association.Negotiate(context.Background(), v.sess, v.sess.app, msg, c.max)
		if (err != nil) != (c.size == 0) || len(out) != c.size {
			t.Errorf("room %d and %d: %d bytes, %v; want %d", c.response, c.max, len(out), err, c.size)
		}
	}
}

// Each prefix of a NEGOTIATE, and each other packet, closes the pipe.
//
// Source: [LWIO §Network Discovery] [OP-35] [OP-37]
func TestInvalidNegotiateClosesPipe(t *testing.T) { onEach(t, testInvalidNegotiateClosesPipe) }

func testInvalidNegotiateClosesPipe(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	good := negotiateRequest(t, nil)
	for n := range good {
		if _, err := v.e.association.Negotiate(context.Background(), v.sess, v.sess.app, good[:n], 0xFFFF); err == nil {
			t.Fatalf("%d of %d bytes are accepted", n, len(good))
		}
	}
	for name, at := range map[string]int{"magic": 0, "revision": 4, "opcode": 8, "length": 10} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if _, err := v.e.association.Negotiate(context.Background(), v.sess, v.sess.app, bad, 0xFFFF); err == nil {
			t.Errorf("a wrong %s is accepted", name)
		}
	}
	v.check(v.client())
}

// However often a session negotiates, the keys that it uses stay valid, until it ends.
//
// Source: [OP-42]
func TestKeysInUseSurviveNegotiations(t *testing.T) { onEach(t, testKeysInUseSurviveNegotiations) }

func testKeysInUseSurviveNegotiations(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	first := v.negotiate(v.sess)
	c := v.connect(first)
	c.auth(first, authOptions{})
	for range 50 {
		v.negotiate(v.sess)
	}
	again := v.connect(first)
	again.auth(first, authOptions{})
	v.check(again)
	v.sess.end()
	c.wantCut()
	again.wantCut()
	late := v.connect(first)
	msg, _ := late.authMessage(first, authOptions{})
	late.wantDenied(msg)
}

// SMB alone: LWIO is not announced, and there is no pipe.
//
// Source: [OP-30]
func TestServerWithoutProvidersServesSMBAlone(t *testing.T) {
	v := newEnv(t, envConfig{})
	s, err := New(Config{FS: v.fs})
	if err != nil {
		t.Fatal(err)
	}
	if s.engine.association.ResumeContext() != nil {
		t.Error("LWIO is announced")
	}
	s.Close()
	if _, err := New(Config{}); err == nil {
		t.Error("a server without a file system")
	}
}

// Source: [OP-42]
func TestLimitsAreDefaultedAndClamped(t *testing.T) {
	l := Limits{}.withDefaults()
	if l.Credits != 32 || l.MaxRecvBufferSize != 64<<10 || l.MaxByReferenceSize != 1<<20 || l.MaxRDMAWindowSize != 512<<10 ||
		l.AuthTimeout != DefaultAuthTimeout || l.FilesPerConnection != 4096 {
		t.Errorf("%+v", l)
	}
	l = Limits{Credits: 1 << 20, MaxRecvBufferSize: 1, MaxRDMAWindowSize: 1 << 30, FilesPerConnection: 1 << 20}.withDefaults()
	if l.Credits != 1024 || l.MaxRecvBufferSize != 4096 || l.MaxByReferenceSize != 4096 || l.MaxRDMAWindowSize != 8<<20 ||
		l.FilesPerConnection != 65535 || l.ReadBufferBytes < 4*l.MaxRDMAWindowSize {
		t.Errorf("%+v", l)
	}
}

func TestUsersIgnoreCaseAndDomain(t *testing.T) {
	u := Users{"Alice": "secret"}
	name, a, ok := u.Lookup("ANY", "alice")
	name2, b, ok2 := u.Lookup("", "Alice")
	if !ok || !ok2 || name != "Alice" || name2 != "Alice" || a != b || a == [16]byte{} {
		t.Errorf("alice is known as %q and %q", name, name2)
	}
	if _, _, ok := u.Lookup("", "bob"); ok {
		t.Error("bob is known")
	}
}

// All spellings of a user that only one entry matches have one name; a user with an entry of the
// same spelling is that entry.
func TestUsersReturnTheCanonicalName(t *testing.T) {
	u := Users{"boss": "1", "Bob": "2", "bob": "3"}
	for typed, want := range map[string]string{
		"boss": "boss", "BOSS": "boss", "bo\u017fs": "boss", "Bob": "Bob", "bob": "bob", "BOB": "Bob",
	} {
		if name, hash, ok := u.Lookup("", typed); !ok || name != want || hash != NTHash(u[want]) {
			t.Errorf("%q is %q, want %q", typed, name, want)
		}
	}
}

package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/test/leakcheck"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/vfs"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience bounds the time that a test waits for an expected event, and that a server of tests
// waits for its clients and files unless a test shortens it.
const patience = time.Minute

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// fakeSession stands for an SMB session and its lineage.
type fakeSession struct {
	id   uint64
	user string // "" is alice
	app  [16]byte
	done chan struct{}
	once sync.Once
	pace *ratelimit.Limiter
	left bool   // it ends by LOGOFF
	hold func() // precedes each answer of LoggedOff; nil is none
}

func newFakeSession(id uint64) *fakeSession {
	s := &fakeSession{id: id, done: make(chan struct{})}
	rand.Read(s.app[:])
	return s
}

func (s *fakeSession) ID() uint64                  { return s.id }
func (s *fakeSession) User() string                { return cmp.Or(s.user, "alice") }
func (s *fakeSession) Retain()                     {}
func (s *fakeSession) Done() <-chan struct{}       { return s.done }
func (s *fakeSession) Limiter() *ratelimit.Limiter { return s.pace }
func (s *fakeSession) logOff()                     { s.left = true; s.end() }
func (s *fakeSession) end()                        { s.once.Do(func() { close(s.done) }) }

func (s *fakeSession) LoggedOff() bool {
	if s.hold != nil {
		s.hold()
	}
	return s.left
}

// providers returns the providers of the tests.
var providers = map[string]func() rdma.Provider{
	"iwarp": func() rdma.Provider { return iwarp.New(nil) },
	"shm":   func() rdma.Provider { return shm.New(nil) },
}

// onEach runs a test over each provider that works on this system.
func onEach(t *testing.T, run func(t *testing.T, on string)) {
	for _, on := range slices.Sorted(maps.Keys(providers)) {
		if on == "iwarp" || runtime.GOOS == "linux" {
			t.Run(on, func(t *testing.T) { run(t, on) })
		}
	}
}

// env is an engine over a directory, and a session to use it with. The test starts the watching
// of its connections (engine.startWatching) if it needs it: else deltas of credits would come at
// any time.
type env struct {
	t        testing.TB
	e        *engine
	fs       *vfs.FS
	dir      string
	sess     *fakeSession
	on       string        // the fabric of both sides
	provider rdma.Provider // of clients
}

// envConfig holds the deviations of a test from the defaults.
type envConfig struct {
	limits    Limits
	immediate bool
	allowMD5  bool
	// encryption is the server's, requireEncryption that of its share.
	encryption        Encryption
	requireEncryption bool
	backend           vfs.Backend
	revoke            time.Duration
	log               *slog.Logger
	on                string        // names the provider of both sides; "" is iwarp
	provider          rdma.Provider // of the server, instead
	// rdmaListen are the addresses of the server; with none it is loopback.
	rdmaListen []netip.AddrPort
}

func newEnv(t testing.TB, ec envConfig) *env {
	t.Helper()
	if ec.on == "" {
		ec.on = "iwarp"
	}
	v := &env{t: t, dir: t.TempDir(), sess: newFakeSession(1), on: ec.on, provider: providers[ec.on]()}
	backend := ec.backend
	if backend == nil {
		var err error
		if backend, err = posix.OpenDir(v.dir); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := vfs.New(vfs.Config{
		Shares: []vfs.Share{{Name: "share", Backend: backend, RequireEncryption: ec.requireEncryption}}, RevokeTimeout: cmp.Or(ec.revoke, patience),
	})
	if err != nil {
		t.Fatal(err)
	}
	v.fs = fs
	if ec.provider == nil {
		ec.provider = providers[ec.on]()
	}
	ec.limits.AuthTimeout = cmp.Or(ec.limits.AuthTimeout, patience)
	cfg := Config{FS: fs, ServerName: "here", AllowMD5: ec.allowMD5, Encryption: ec.encryption, ImmediateData: ec.immediate, RDMAListen: ec.rdmaListen, Limits: ec.limits, Logger: ec.log}
	if cfg, err = cfg.withDefaults(); err != nil {
		t.Fatal(err)
	}
	v.e = newEngine(&cfg)
	t.Cleanup(func() {
		v.e.close()
		if err := v.fs.Close(); err != nil {
			t.Error(err)
		}
	})
	if g, is := backend.(*gate); is {
		t.Cleanup(g.open) // else the engine's close waits forever
	}
	if err := v.e.listen(context.Background(), []rdma.Provider{ec.provider}, loopback); err != nil {
		t.Fatal(err)
	}
	return v
}

// in makes failures those of a subtest.
func (v *env) in(t testing.TB) {
	parent := v.t
	v.t = t
	t.Cleanup(func() { v.t = parent })
}

// file creates a file and opens it for the session of the env.
func (v *env) file(name string, content []byte) *vfs.Open {
	v.t.Helper()
	if err := os.WriteFile(filepath.Join(v.dir, name), content, 0o600); err != nil {
		v.t.Fatal(err)
	}
	return v.open(name, vfs.ReadData|vfs.WriteData, 0, v.sess)
}

func (v *env) open(name string, access vfs.Access, options vfs.Options, owner vfs.Owner) *vfs.Open {
	v.t.Helper()
	o, _, err := v.fs.Open(vfs.OpenRequest{
		Share: "share", Path: name, Access: access, Options: options, Owner: owner,
		ShareMode: vfs.ShareRead | vfs.ShareWrite | vfs.ShareDelete, Disposition: vfs.OpenIf,
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return o
}

// negotiated is the result of NEGOTIATE.
type negotiated struct {
	clientKey, serverKey [16]byte
	authKey              []byte
	addr                 rdma.Addr
}

// negotiate runs NEGOTIATE for a session, with all providers.
func (v *env) negotiate(sess *fakeSession) *negotiated {
	v.t.Helper()
	return v.negotiateFor(sess, "shm", "iwarp")
}

func (v *env) negotiateFor(sess *fakeSession, names ...string) *negotiated {
	v.t.Helper()
	n := &negotiated{}
	rand.Read(n.clientKey[:])
	v.renegotiate(sess, n, names...)
	return n
}

func (v *env) renegotiate(sess *fakeSession, n *negotiated, names ...string) {
	v.t.Helper()
	req := wire.NegotiateRequest{ClientName: "there", Key: n.clientKey, ResponseLength: 0xFFFF}
	for _, name := range names {
		req.Providers = append(req.Providers, wire.AddressBlock{Name: name})
	}
	msg, err := req.AppendTo(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	out, err := v.e.association.Negotiate(context.Background(), sess, sess.app, msg, 0xFFFF)
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		v.t.Fatal(err)
	}
	if len(resp.Providers) != 1 || resp.Providers[0].Name != v.on || len(resp.Providers[0].Instances) != 1 {
		v.t.Fatalf("providers %+v", resp.Providers)
	}
	n.addr = addrOf(v.t, v.on, resp.Providers[0].Instances[0])
	n.serverKey = resp.Key
	n.authKey = wire.DeriveAuthKey(sess.app[:], n.clientKey, n.serverKey)
}

// addrOf returns the address in a NEGOTIATE response; on IP fabrics it is on loopback.
//
// Source: [OP-38b]
func addrOf(t testing.TB, on string, in wire.NetAddress) rdma.Addr {
	t.Helper()
	if on == "shm" {
		if len(in.HostAddress) != 16 || len(in.Discriminator) == 0 {
			t.Fatalf("address %+v", in)
		}
		return rdma.Addr{Fabric: on, Host: [16]byte(in.HostAddress), Name: string(in.Discriminator)}
	}
	if len(in.HostAddress) != 0 || len(in.Discriminator) != 2 {
		t.Fatalf("address %+v", in)
	}
	return rdma.IPAddr(on, netip.AddrPortFrom(loopback, binary.BigEndian.Uint16(in.Discriminator)))
}

// check demands that the client is served.
func (v *env) check(c *rawClient) {
	v.t.Helper()
	content := []byte("the server goes on")
	o := v.file("check.txt", content)
	defer o.Close()
	fid := c.register(o)
	clear(c.in.Bytes()[:len(content)])
	c.want(ntstatus.Success, uint32(len(content)), c.readHeader(fid, 0, 100, 0), nil)
	if !bytes.Equal(c.in.Bytes()[:len(content)], content) {
		v.t.Fatalf("read %q", c.in.Bytes()[:len(content)])
	}
	c.want(ntstatus.Success, 0, controlHeader(wire.OpClose, fid), nil)
}

// deserted reports whether the server has forgotten all connections, and counts none of them.
func (v *env) deserted() bool {
	v.e.conns.mu.Lock()
	defer v.e.conns.mu.Unlock()
	return len(v.e.conns.all) == 0
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// content returns n bytes without a short period.
func content(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lwio/internal/leakcheck"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/vfs"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// fakeSession stands for an SMB session.
type fakeSession struct {
	id   uint64
	app  [16]byte
	done chan struct{}
	once sync.Once
}

func newFakeSession(id uint64) *fakeSession {
	s := &fakeSession{id: id, done: make(chan struct{})}
	rand.Read(s.app[:])
	return s
}

func (s *fakeSession) ID() uint64               { return s.id }
func (s *fakeSession) User() string             { return "alice" }
func (s *fakeSession) ApplicationKey() [16]byte { return s.app }
func (s *fakeSession) Done() <-chan struct{}    { return s.done }
func (s *fakeSession) end()                     { s.once.Do(func() { close(s.done) }) }

// env is an engine over a directory, and a session to use it with.
type env struct {
	t        testing.TB
	e        *engine
	fs       *vfs.FS
	dir      string
	sess     *fakeSession
	provider rdma.Provider // of clients
}

// envConfig is what a test wants to be different.
type envConfig struct {
	limits   Limits
	allowMD5 bool
	backend  vfs.Backend
	revoke   time.Duration
	log      *slog.Logger
	provider rdma.Provider // of the server
}

func newEnv(t testing.TB, ec envConfig) *env {
	t.Helper()
	v := &env{t: t, dir: t.TempDir(), sess: newFakeSession(1), provider: iwarp.New(nil)}
	backend := ec.backend
	if backend == nil {
		var err error
		if backend, err = vfs.NewDir(v.dir); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := vfs.New(vfs.Config{
		Shares: []vfs.Share{{Name: "share", Backend: backend}}, RevokeTimeout: ec.revoke,
	})
	if err != nil {
		t.Fatal(err)
	}
	v.fs = fs
	if ec.provider == nil {
		ec.provider = iwarp.New(nil)
	}
	cfg := Config{FS: fs, ServerName: "here", AllowMD5: ec.allowMD5, Limits: ec.limits, Logger: ec.log}
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
		t.Cleanup(g.open) // else the engine's close waits for good
	}
	if err := v.e.listen(context.Background(), []rdma.Provider{ec.provider}, loopback); err != nil {
		t.Fatal(err)
	}
	return v
}

// in makes a subtest the one that fails.
func (v *env) in(t testing.TB) {
	parent := v.t
	v.t = t
	t.Cleanup(func() { v.t = parent })
}

// file makes a file and opens it for the env's session.
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

// negotiated is the outcome of NEGOTIATE.
type negotiated struct {
	clientKey, serverKey [16]byte
	authKey              []byte
	addr                 rdma.Addr
}

// negotiate runs NEGOTIATE for a session.
func (v *env) negotiate(sess *fakeSession) *negotiated {
	v.t.Helper()
	n := &negotiated{}
	rand.Read(n.clientKey[:])
	v.renegotiate(sess, n)
	return n
}

func (v *env) renegotiate(sess *fakeSession, n *negotiated) {
	v.t.Helper()
	req := wire.NegotiateRequest{
		ClientName: "there", Key: n.clientKey, ResponseLength: 0xFFFF,
		Providers: []wire.AddressBlock{{Name: "shm"}, {Name: "iwarp"}},
	}
	msg, err := req.AppendTo(nil)
	if err != nil {
		v.t.Fatal(err)
	}
	out, err := v.e.negotiate(context.Background(), sess, msg, 0xFFFF)
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		v.t.Fatal(err)
	}
	if len(resp.Providers) != 1 || resp.Providers[0].Name != "iwarp" || len(resp.Providers[0].Instances) != 1 {
		v.t.Fatalf("providers %+v", resp.Providers)
	}
	in := resp.Providers[0].Instances[0]
	if len(in.HostAddress) != 0 || len(in.Discriminator) != 2 {
		v.t.Fatalf("address %+v", in)
	}
	port := uint16(in.Discriminator[0])<<8 | uint16(in.Discriminator[1])
	n.addr = rdma.IPAddr("iwarp", netip.AddrPortFrom(loopback, port))
	n.serverKey = resp.Key
	n.authKey = wire.DeriveAuthKey(sess.app[:], n.clientKey, n.serverKey)
}

// check demands that the client can work.
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

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// content is bytes that do not repeat soon.
func content(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// A client over SMB and LWIO: log on, open, resume key and context, pipe,
// NEGOTIATE, AUTH, REGISTER, I/O, and the end of the file by SMB's close.
//
// Source: [LWIO §Discovery] [LWIO §Network Discovery] [LWIO §Connection Authentication] [LWIO claim 1] [LWIO claim 3] [LWIO claim 9] [LWIO claim 10] [LWIO claim 11]
// [LWIO claim 1] [LWIO claim 7] [LWIO claim 8] [OP-30] [OP-34] [OP-46b] [OP-56] [OP-58b]
func TestEndToEnd(t *testing.T) { onEach(t, testEndToEnd) }

func testEndToEnd(t *testing.T, on string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir := t.TempDir()
	data := content(1 << 20)
	if err := os.WriteFile(filepath.Join(dir, "a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, addr, served := newServer(t, context.Background(), Config{
		ServerName: "here", Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{providers[on]()},
	}, dir)

	tree, sess := logOn(t, ctx, addr, "alice", "secret", "share")
	f, err := tree.Create(ctx, smbclient.CreateRequest{
		Name: "a", Access: uint32(vfs.ReadData | vfs.WriteData), Share: 7, Disposition: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := f.ResumeKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key, err := wire.DecodeResumeKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	if key.Context != `\\here\pipe\lwio` {
		t.Fatalf("context %q", key.Context)
	}

	v := &env{t: t, on: on, provider: providers[on]()}
	n := negotiateOverPipe(t, ctx, sess)
	c := v.connect(n)
	c.auth(n, authOptions{})
	params := wire.FIDParams{ResumeKey: key.Key, SessionID: c.sessionID}
	answer := c.call(wire.NewRegister(), params.AppendTo(nil))
	if answer.Status != 0 {
		t.Fatalf("REGISTER: %v", ntstatus.Status(answer.Status))
	}
	fid := uint16(answer.Information)
	c.want(ntstatus.Success, 512<<10, c.readHeader(fid, 4096, 512<<10, 0), nil)
	if !bytes.Equal(c.in.Bytes()[:512<<10], data[4096:][:512<<10]) {
		t.Error("the data read differs")
	}
	c.want(ntstatus.Success, 5, writeHeader(fid, 0, 5), []byte("hello"))
	p := make([]byte, 5)
	if _, err := f.ReadAt(ctx, p, 0); err != nil || string(p) != "hello" {
		t.Errorf("SMB reads %q, %v", p, err)
	}

	// Another user's session cannot use the key.
	_, other := logOn(t, ctx, addr, "alice", "secret", "share")
	theirs := negotiateOverPipe(t, ctx, other)
	second := v.connect(theirs)
	second.auth(theirs, authOptions{})
	params.SessionID = second.sessionID
	second.want(ntstatus.ObjectNameNotFound, 0, wire.NewRegister(), params.AppendTo(nil))

	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
	c.want(ntstatus.FileClosed, 0, c.readHeader(fid, 0, 10, 0), nil)
	if st := s.Stats(); st.SMBConnections != 2 || st.Authenticated != 2 || st.Files != 0 || st.Reads.Operations < 1 {
		t.Errorf("stats %+v", st)
	}
	sess.Close() // logs off
	c.wantCut()
	second.want(ntstatus.FileClosed, 0, controlHeader(wire.OpClose, 1), nil)
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	second.wantCut()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// Shutdown answers the requests over SMB, too, and does not wait for idle sessions.
func TestShutdownAnswersSMB(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g := newGate(t)
	g.make("a", []byte("hello"))
	s, addr, served := newServerOf(t, context.Background(), Config{Lookup: Users{"alice": "secret"}.Lookup}, g)
	t.Cleanup(g.open)
	tree, busy := logOn(t, ctx, addr, "alice", "secret", "share")
	_, idle := logOn(t, ctx, addr, "alice", "secret", "share")
	f, err := tree.Create(ctx, smbclient.CreateRequest{Name: "a", Access: 1, Share: 7, Disposition: 1})
	if err != nil {
		t.Fatal(err)
	}
	g.shut()
	p := make([]byte, 5)
	read, stopped := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := f.ReadAt(ctx, p, 0)
		read <- err
	}()
	eventually(t, "a read is in progress", func() bool { return g.waiting() == 1 })
	go func() { stopped <- s.Shutdown(ctx) }()
	eventually(t, "the idle session has ended", func() bool { return idle.Err() != nil })
	g.open()
	if err := <-read; err != nil || string(p) != "hello" {
		t.Errorf("read %q, %v", p, err)
	}
	eventually(t, "the busy session has ended", func() bool { return busy.Err() != nil })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func logOn(t *testing.T, ctx context.Context, addr net.Addr, user, password, share string) (*smbclient.Tree, *smbclient.Session) {
	t.Helper()
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := smbclient.New(ctx, nc, "127.0.0.1", smbclient.Config{User: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	tree, err := s.TreeConnect(ctx, share)
	if err != nil {
		t.Fatal(err)
	}
	return tree, s
}

func negotiateOverPipe(t *testing.T, ctx context.Context, s *smbclient.Session) *negotiated {
	t.Helper()
	pipe, err := s.OpenPipe(ctx, "lwio")
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	n := &negotiated{}
	rand.Read(n.clientKey[:])
	msg := negotiateRequest(t, func(r *wire.NegotiateRequest) {
		r.Key, r.Providers = n.clientKey, []wire.AddressBlock{{Name: "iwarp"}, {Name: "shm"}}
	})
	out, err := pipe.Transact(ctx, msg, 0xFFFF)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		t.Fatal(err)
	}
	n.addr = addrOf(t, resp.Providers[0].Name, resp.Providers[0].Instances[0])
	n.serverKey = resp.Key
	app := s.ApplicationKey()
	n.authKey = wire.DeriveAuthKey(app[:], n.clientKey, n.serverKey)
	return n
}

// A server without providers does not announce LWIO over SMB.
//
// Source: [OP-30]
func TestServerWithoutProvidersDoesNotAnnounceLWIO(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, addr, _ := newServer(t, context.Background(), Config{
		Lookup: Users{"alice": "secret"}.Lookup,
	}, dir)
	tree, sess := logOn(t, ctx, addr, "alice", "secret", "share")
	f, err := tree.Create(ctx, smbclient.CreateRequest{Name: "a", Access: uint32(vfs.ReadData), Share: 7, Disposition: 1})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := f.ResumeKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := wire.DecodeResumeKey(raw); err != nil || key.Context != "" {
		t.Errorf("context %q, %v", key.Context, err)
	}
	if _, err := sess.OpenPipe(ctx, "lwio"); err == nil {
		t.Error("the pipe is there")
	}
}

package server

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lwio"
	"lwio/internal/smb/smbclient"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// Client and server discover their common provider, and the client posts its requests over it. A
// client without a common provider posts no request.
//
// Source: [LWIO claim 7] [OP-38]
func TestClaim07(t *testing.T) { onEach(t, testClaim07) }

func testClaim07(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	all := []rdma.Provider{
		named{providers["iwarp"](), "ib"}, p.watch.wrap(providers["iwarp"](), "client"),
	}
	if on == "shm" {
		all = append(all, p.watch.wrap(providers["shm"](), "client"))
	}
	f := p.file(p.dial(lwio.Config{Providers: all}), "a", content(5000))
	p.wantRead(f, 0, content(5000))
	if got := p.watch.requests(wire.OpRead); len(got) != 1 {
		t.Fatalf("%d reads were posted", len(got))
	}
	_, err := lwio.Dial(t.Context(), "lwio://alice:secret@"+p.addr.String()+"/share", &lwio.Config{
		RequireRDMA: true, Providers: all[:1],
	})
	if n := p.server.Stats().Accepted; !errors.Is(err, lwio.ErrNoRDMA) || n != 1 {
		t.Errorf("with nothing in common: %v, %d connections", err, n)
	}
}

// named is a provider with the name of another fabric. It opens no adapter.
type named struct {
	rdma.Provider
	name string
}

func (n named) Name() string { return n.name }

func (n named) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) {
	return nil, errors.New("not to be used")
}

// The steps of discovery: the context of a resume key names the pipe, the pipe accepts a NEGOTIATE,
// and the answer lists only the common providers.
//
// Source: [LWIO claim 8] [OP-30] [OP-32] [OP-34]
func TestClaim08(t *testing.T) { onEach(t, testClaim08) }

func testClaim08(t *testing.T, on string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := newPair(t, on, Limits{})
	if err := os.WriteFile(filepath.Join(p.dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree, sess := logOn(t, ctx, p.addr, "alice", "secret", "share")
	f, err := tree.Create(ctx, smbclient.CreateRequest{Name: "a", Access: 1, Share: 7, Disposition: 1})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := f.ResumeKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key, err := wire.DecodeResumeKey(raw)
	if err != nil || key.Key == [24]byte{} || key.Context != `\\here\pipe\lwio` {
		t.Fatalf("the resume key is %+v, %v", key, err)
	}
	pipe, err := sess.OpenPipe(ctx, "lwio")
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, has := range [][]string{{"ib", "iwarp", "nothing", "shm", "roce"}, {on}, {"ib"}, {}} {
		req := wire.NegotiateRequest{ClientName: "there", Key: [16]byte{byte(1 + len(has))}, ResponseLength: 0xFFFF}
		for _, name := range has {
			req.Providers = append(req.Providers, wire.AddressBlock{Name: name})
		}
		msg, err := req.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pipe.Transact(ctx, msg, 0xFFFF)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := wire.DecodeNegotiateResponse(out)
		if err != nil {
			t.Fatal(err)
		}
		var common []string
		for _, b := range resp.Providers {
			common = append(common, b.Name)
			if len(b.Instances) == 0 {
				t.Errorf("%s has no address", b.Name)
			}
		}
		var want []string
		if slices.Contains(has, on) {
			want = []string{on}
		}
		if !slices.Equal(common, want) {
			t.Errorf("to a client that has %q the server lists %q", has, common)
		}
	}
}

// The connection is made over the common provider, and both sides prove themselves first:
// neither goes on with a peer that has a wrong proof.
//
// Source: [LWIO claim 9] [OP-46b]
func TestClaim09(t *testing.T) { onEach(t, testClaim09) }

func testClaim09(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	c := p.dial(lwio.Config{})
	auth := p.watch.requests(wire.OpAuth)
	if len(auth) != 1 || auth[0].answer == nil || auth[0].answer.Status != 0 {
		t.Fatalf("AUTH %+v", auth)
	}
	for i, s := range p.watch.seen() {
		if s.by == "client" && s.op == rdma.OpSend && i != auth[0].at || s.by == "server" && i < auth[0].at {
			t.Errorf("the %s sent something before AUTH was over", s.by)
		}
	}
	p.wantRead(p.file(c, "a", content(10)), 0, content(10))

	// A bit of the client's message, and of the server's, is wrong.
	for _, liar := range []string{"client", "server"} {
		flip := fault.AtOperation(1, fault.Flip(8*(48+30+5)))
		if liar == "server" {
			flip = fault.AtOperation(1, fault.Flip(8*(30+5)))
		}
		client, server := providers[on](), providers[on]()
		if liar == "client" {
			client = fault.Wrap(client, &fault.Config{Fault: flip})
		} else {
			server = fault.Wrap(server, &fault.Config{Fault: flip})
		}
		s, addr, _ := newServer(t, context.Background(), Config{
			Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{server},
		}, t.TempDir())
		_, err := lwio.Dial(t.Context(), "lwio://alice:secret@"+addr.String()+"/share", &lwio.Config{
			RequireRDMA: true, Providers: []rdma.Provider{client},
		})
		if !errors.Is(err, lwio.ErrNoRDMA) {
			t.Errorf("with a %s that lies: %v", liar, err)
		}
		eventually(t, "the connection is gone", func() bool { return s.Stats().Connections == 0 })
	}
}

// Several files are registered over one connection, and each request names its own.
//
// Source: [LWIO claim 10] [OP-53]
func TestClaim10(t *testing.T) { onEach(t, testClaim10) }

func testClaim10(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	c := p.dial(lwio.Config{})
	data := content(9000)
	var files []*lwio.File
	for i, name := range []string{"a", "b", "c"} {
		files = append(files, p.file(c, name, data[3000*i:][:3000]))
	}
	for i, f := range files {
		p.wantRead(f, 0, data[3000*i:][:3000])
	}
	fids := make(map[uint16]bool)
	for _, r := range p.watch.requests(wire.OpRead) {
		fids[r.h.Fid] = true
	}
	if n := len(p.watch.requests(wire.OpRegister)); n != 3 || len(fids) != 3 || p.server.Stats().Files != 3 {
		t.Errorf("%d registrations, %d Fids in use, %d files", n, len(fids), p.server.Stats().Files)
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "no file is registered", func() bool { return p.server.Stats().Files == 0 })
}

// A register message names the open by its resume key, and its completion contains the Fid.
//
// Source: [LWIO claim 11]
func TestClaim11(t *testing.T) { onEach(t, testClaim11) }

func testClaim11(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	f := p.file(p.dial(lwio.Config{Completion: lwio.Interrupt}), "a", content(100))
	p.wantRead(f, 0, content(100))
	register, read := p.watch.requests(wire.OpRegister), p.watch.requests(wire.OpRead)
	if len(register) != 1 || len(read) != 1 {
		t.Fatalf("%d registrations, %d reads", len(register), len(read))
	}
	r := &register[0]
	params, err := wire.DecodeFIDParams(r.body)
	if err != nil {
		t.Fatal(err)
	}
	_, smb := p.tap.bytes()
	if !bytes.Contains(smb, params.ResumeKey[:]) {
		t.Error("the client did not receive the key over SMB")
	}
	r.success(t, uint32(read[0].h.Fid))
	if read[0].h.Fid == 0 || read[0].at < r.at {
		t.Errorf("Fid %d", read[0].h.Fid)
	}
}

// AUTH carries a key. If it is the one that the server sent before, the server
// responds with parameters of its own; if not, with a status alone.
//
// Source: [LWIO claim 12] [OP-50c] [OP-101]
func TestClaim12(t *testing.T) { onEach(t, testClaim12) }

func testClaim12(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	for _, at := range []int{0, 15} {
		wrong := n.serverKey
		wrong[at] ^= 1
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.Key = &wrong }})
		c.wantDenied(msg)
	}
	c := v.connect(n)
	c.auth(n, authOptions{}) // checks the response, the client's key in it
	v.check(c)
}

// AUTH needs the key of the NEGOTIATE response. A key that the client made, and the key of a response
// to another session, are refused.
//
// Source: [LWIO claim 13] [OP-42]
func TestClaim13(t *testing.T) { onEach(t, testClaim13) }

func testClaim13(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n, theirs := v.negotiate(v.sess), v.negotiate(newFakeSession(7))
	for what, key := range map[string][16]byte{"the client's own": n.clientKey, "another session's": theirs.serverKey} {
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.Key = &key }})
		c.wantDenied(msg)
		if v.e.count.authenticated.Load() != 0 {
			t.Errorf("%s key was good", what)
		}
	}
	// A second response makes a second key; both are good.
	again := v.negotiate(v.sess)
	if again.serverKey == n.serverKey {
		t.Fatal("two responses have one key")
	}
	for _, n := range []*negotiated{n, again} {
		c := v.connect(n)
		c.auth(n, authOptions{})
		v.check(c)
	}
}

// A status response completes the authentication, behind the parameters, and nothing
// is done before.
//
// Source: [LWIO claim 14] [OP-47]
func TestClaim14(t *testing.T) { onEach(t, testClaim14) }

func testClaim14(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	p.dial(lwio.Config{})
	auth := p.watch.requests(wire.OpAuth)
	if len(auth) != 1 || len(auth[0].writes) != 1 {
		t.Fatalf("AUTH %+v", auth)
	}
	a := &auth[0]
	params := a.writes[0]
	a.success(t, uint32(params.size+8))
	if params.remote.Addr != a.h.DataVa || uint32(params.remote.Token) != a.h.DataMh {
		t.Error("the parameters went elsewhere")
	}
	theirs, err := wire.DecodeAuthParams(params.data)
	if err != nil || theirs.SessionID == nil {
		t.Fatalf("%+v, %v", theirs, err)
	}
	list := p.watch.seen()
	if last := list[len(list)-1]; last.by != "server" || last.op != rdma.OpSend || len(list) != 3 {
		t.Errorf("the last of %d posts is %+v", len(list), last)
	}
}

package server

import (
	"context"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
)

// Fields without a meaning in the text are ignored: Marker, Tid, Sequence, flags of an open that
// are not the open's, CONTROL, and MaxSendBufferSize.
//
// Source: [OP-21] [OP-22] [OP-23] [OP-50f] [OP-52] [OP-52b] [OP-62] [OP-92h]
func TestFieldsWithoutMeaningAreIgnored(t *testing.T) { onEach(t, testFieldsWithoutMeaningAreIgnored) }

func testFieldsWithoutMeaningAreIgnored(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) {
		p.MaxSendBufferSize, p.RdmaReadSupported = 1, 1
	}})
	if c.params.RdmaReadSupported != 0 {
		t.Error("the server says that it supports RDMA reads")
	}
	o := v.file("a", content(5000))
	h, _ := c.registerMessage(o)
	claim := wire.FIDParams{ResumeKey: o.ResumeKey(), SessionID: c.sessionID, FlagsAndAttributes: uint32(vfs.NoIntermediateBuffering)}
	s := c.call(h, claim.AppendTo(nil))
	if s.Status != 0 {
		t.Fatalf("REGISTER: %v", ntstatus.Status(s.Status))
	}
	fid := uint16(s.Information)
	// The open is buffered, even if the client claims that it is not.
	c.want(ntstatus.InvalidParameter, 0, by(wire.NewCollapse(fid, 0, 8192, 4096), completion{Cookie: 1}), content(4096))
	c.want(ntstatus.Success, 4096, writeHeader(fid, 0, 4096), content(4096)) // more than MaxSendBufferSize
	msg := c.readHeader(fid, 0, 5000, 0)
	msg.Cookie, msg.Tid, msg.Sequence, msg.Marker, msg.Flags = 5, 0xDEADBEEF, 0x7777, 0, msg.Flags|wire.FlagControl
	c.raw(msg.AppendTo(nil))
	if s := c.reply(); s.Cookie != 5 || s.Status != 0 || s.Information != 5000 {
		t.Errorf("%+v", s)
	}
	v.check(c)
}

// The name that a client gives itself has no effect: the rights of the SMB session count.
//
// Source: [LWIO §Network Discovery] [OP-41] [OP-56]
func TestClientNameHasNoEffect(t *testing.T) { onEach(t, testClientNameHasNoEffect) }

func testClientNameHasNoEffect(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	theirs := v.open("theirs", vfs.ReadData, 0, newFakeSession(5))
	for _, name := range []string{"", "here", "SESSION5", "client\\..\\pipe"} {
		key := [16]byte{byte(len(name)), 1}
		out, err := v.e.association.Negotiate(context.Background(), v.sess, v.sess.app, negotiateRequest(t, func(r *wire.NegotiateRequest) {
			r.ClientName, r.Key = name, key
		}), 0xFFFF)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		resp, err := wire.DecodeNegotiateResponse(out)
		if err != nil {
			t.Fatal(err)
		}
		app := v.sess.app
		n := &negotiated{
			clientKey: key, serverKey: resp.Key, authKey: wire.DeriveAuthKey(app[:], key, resp.Key), addr: v.e.fabrics[0].addr,
		}
		c := v.connect(n)
		c.auth(n, authOptions{})
		h, body := c.registerMessage(theirs)
		c.want(ntstatus.ObjectNameNotFound, 0, h, body)
		v.check(c)
		c.connector.Close()
	}
}

// A wrong address or handle ends the connection, and affects no other.
//
// Source: [OP-18] [OP-19] [OP-92g]
func TestWrongRemoteAddressEndsConnection(t *testing.T) {
	onEach(t, testWrongRemoteAddressEndsConnection)
}

func testWrongRemoteAddressEndsConnection(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	other := v.client()
	o := v.file("a", content(100_000))
	for name, change := range map[string]func(h *wire.Header){
		"handle":           func(h *wire.Header) { h.DataMh++ },
		"address":          func(h *wire.Header) { h.DataVa -= 1 << 30 },
		"end":              func(h *wire.Header) { h.DataVa += inSize - 100 },
		"no address":       func(h *wire.Header) { h.DataVa = 1<<64 - 1 },
		"of the status":    func(h *wire.Header) { h.Flags &^= wire.FlagInterrupt; h.IosMh = h.DataMh + 1 },
		"of no fid at all": func(h *wire.Header) { h.Flags &^= wire.FlagInterrupt; h.Fid = 999; h.IosVa = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			v.in(t)
			c := v.client()
			h := c.readHeader(c.register(o), 0, 5000, 0)
			change(&h)
			c.send(h, nil)
			c.wantCut()
			v.check(other)
		})
	}
}

// Each connection has files, credits and answers of its own, also those of one session.
//
// Source: [OP-53] [OP-109]
func TestConnectionsAreIndependent(t *testing.T) { onEach(t, testConnectionsAreIndependent) }

func testConnectionsAreIndependent(t *testing.T, on string) {
	b, v, first, o, fid := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 2}})
	n := v.negotiate(v.sess)
	second, third := v.connect(n), v.connect(n) // under one pair of keys
	second.auth(n, authOptions{})
	third.auth(n, authOptions{})
	second.want(ntstatus.FileClosed, 0, second.readHeader(fid, 0, 10, 0), nil)
	own := second.register(o)
	if second.sessionID == third.sessionID || first.sessionID == second.sessionID {
		t.Error("two connections have one SessionId")
	}
	params := wire.FIDParams{ResumeKey: o.ResumeKey(), SessionID: third.sessionID}
	h, _ := second.registerMessage(o)
	second.want(ntstatus.AccessDenied, 0, h, params.AppendTo(nil))
	b.shut()
	held := first.send(first.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a worker is busy", func() bool { return b.waiting() == 1 })
	// CANCEL, CLOSE and the end of another connection do not affect this one.
	second.want(ntstatus.Success, 0, controlHeader(wire.OpCancel, own), nil)
	second.want(ntstatus.Success, 0, controlHeader(wire.OpClose, own), nil)
	third.connector.Close()
	eventually(t, "one connection is gone", func() bool { return v.e.count.connections.Load() == 2 })
	b.open()
	if s := first.reply(); s.Cookie != held || s.Status != 0 {
		t.Errorf("%+v", s)
	}
	if len(second.got) != 0 {
		t.Errorf("answers to others: %+v", second.got)
	}
}

// cachedGate is a gate whose reads are in the cache: only writes wait.
type cachedGate struct{ *gate }

func (g *cachedGate) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := g.Dir.Open(path, how)
	return &cachedFile{&gated{h, g.gate, true}}, err
}

type cachedFile struct{ *gated }

func (f *cachedFile) ReadCached(p []byte, off int64) (int, bool, error) {
	n, err := f.Handle.ReadAt(p, off)
	return n, true, err
}

// No request waits for another one that it overlaps.
//
// Source: [OP-92d]
func TestOverlappingRequestsAreNotOrdered(t *testing.T) {
	onEach(t, testOverlappingRequestsAreNotOrdered)
}

func testOverlappingRequestsAreNotOrdered(t *testing.T, on string) {
	g := newGate(t)
	g.make("a", content(8192))
	v := newEnv(t, envConfig{on: on, backend: &cachedGate{g}})
	t.Cleanup(g.open)
	c := v.client()
	fid := c.register(v.open("a", vfs.ReadData|vfs.WriteData, 0, v.sess))
	g.shut()
	first := c.send(writeHeader(fid, 0, 4096), make([]byte, 4096))
	second := c.send(writeHeader(fid, 100, 4096), make([]byte, 4096))
	eventually(t, "both writes have begun", func() bool { return g.waiting() == 2 })
	c.want(ntstatus.Success, 8192, c.readHeader(fid, 0, 8192, 0), nil)
	g.open()
	for range 2 {
		if s := c.reply(); s.Status != 0 || s.Cookie != first && s.Cookie != second {
			t.Errorf("%+v", s)
		}
	}
}

// connections records how a server sets up the connections of a provider.
type connections struct {
	mu     sync.Mutex
	events []fault.Event
}

func (k *connections) Event(e fault.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// A connection has no RDMA reads. The private data of its acceptance is a nonce alone. The server posts
// a receive before it accepts, and sends nothing before the first message. Receives have the full size;
// the first one is a page if the provider needs no further receive before AUTH.
//
// Source: [OP-46c] [OP-102] [OP-103] [OP-104] [OP-108]
func TestAcceptedConnectionHasReceiveAndNonce(t *testing.T) {
	onEach(t, testAcceptedConnectionHasReceiveAndNonce)
}

func testAcceptedConnectionHasReceiveAndNonce(t *testing.T, on string) {
	k := new(connections)
	const size = 12 << 10
	v := newEnv(t, envConfig{on: on, limits: Limits{MaxRecvBufferSize: size}, provider: fault.Wrap(providers[on](), &fault.Config{Tracer: k})})
	c := v.client()
	if limits, err := c.connector.ReadLimits(); err != nil || limits != (rdma.ReadLimits{}) {
		t.Errorf("the server offers %+v, %v", limits, err)
	}
	private, err := c.connector.PrivateData()
	if err != nil || len(private) != wire.ConnectionStartSize {
		t.Errorf("the server sends private data %x, %v", private, err)
	}
	v.check(c)
	k.mu.Lock()
	defer k.mu.Unlock()
	received, accepted, spoken := false, false, false
	want := wire.HeaderSize + size
	if y := &v.e.fabrics[0].layout; y.ahead == 0 {
		want = wire.HeaderSize + authRoom
	}
	for _, e := range k.events {
		switch e := e.(type) {
		case fault.Posted:
			switch {
			case e.Op == rdma.OpReceive && e.Bytes != want:
				t.Errorf("a receive of %d bytes, want %d", e.Bytes, want)
			case e.Op == rdma.OpReceive:
				received, want = true, wire.HeaderSize+size
			case e.Op == rdma.OpRead, !spoken:
				t.Errorf("the server posts %v; it was spoken to: %v", e.Op, spoken)
			}
		case fault.Controlled:
			if e.Op == "accept" {
				if accepted = true; !received {
					t.Error("the server accepts before it has posted a receive")
				}
			}
		case fault.Completed:
			spoken = spoken || e.Op == rdma.OpReceive
		}
	}
	if !accepted || !spoken {
		t.Errorf("accepted: %v, spoken to: %v", accepted, spoken)
	}
}

// The server ignores private data of a client.
//
// Source: [OP-102]
func TestPrivateDataOfClientIsIgnored(t *testing.T) { onEach(t, testPrivateDataOfClientIsIgnored) }

func testPrivateDataOfClientIsIgnored(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	c, err := v.tryConnectWith(n, rdma.DialConfig{PrivateData: []byte("LWIO")})
	if err != nil {
		t.Fatal(err)
	}
	c.auth(n, authOptions{})
	v.check(c)
}

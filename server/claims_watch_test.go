package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lwio"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// The claims of the text, each by a test of its name: TestClaim01 to TestClaim06 in
// claims_system_test.go, to TestClaim14 in claims_discovery_test.go, to TestClaim24 in
// claims_io_test.go. The test of a claim that builds on another covers its addition. A watch
// records the requests that both sides post.

// posted is a request that one side posted.
type posted struct {
	by     string // "client" or "server"
	op     rdma.Op
	data   []byte // unless it comes from a file
	size   int
	remote rdma.RemoteAddr // of a write
}

// watch records the requests of client and server, in order.
type watch struct {
	mu  sync.Mutex
	all []posted
}

// wrap returns a provider whose requests w records.
func (w *watch) wrap(p rdma.Provider, by string) *fault.Provider {
	return fault.Wrap(p, &fault.Config{Fault: func(a fault.Attempt) fault.Action {
		r := a.Request
		data := bytes.Clone(r.Inline)
		for _, s := range r.SGL {
			data = append(data, s.Region.Bytes()[s.Offset:s.Offset+s.Length]...)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, posted{by, r.Op, data, a.Bytes, r.Remote})
		return fault.Pass()
	}})
}

// seen returns all recorded requests.
func (w *watch) seen() []posted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]posted(nil), w.all...)
}

// request is a message of the client with the requests that the server posted for it: the
// writes between the message and its answer, and the answer, if it is a message.
type request struct {
	at     int // in the list
	h      wire.Header
	body   []byte
	writes []posted
	answer *wire.StatusResponse
}

// requests returns the client's messages with an opcode, of one call at a time.
func (w *watch) requests(op wire.Opcode) []request {
	var all []request
	list := w.seen()
	for i, p := range list {
		if p.by != "client" || p.op != rdma.OpSend {
			continue
		}
		var h wire.Header
		err := h.Decode(p.data)
		if err != nil || h.Opcode != op {
			continue
		}
		r := request{at: i, h: h, body: p.data[wire.HeaderSize:]}
		for _, q := range list[i:] {
			if q.by == "server" && q.op == rdma.OpWrite {
				r.writes = append(r.writes, q)
			}
			if s, ok := q.status(); ok && s.Cookie == h.Cookie {
				r.answer = &s
			}
			if r.answer != nil || !h.Interrupt() && q.op == rdma.OpWrite && q.remote.Addr == h.IosVa {
				break
			}
		}
		all = append(all, r)
	}
	return all
}

// status is the content of a message of the server.
func (p *posted) status() (wire.StatusResponse, bool) {
	if p.by != "server" || p.op != rdma.OpSend {
		return wire.StatusResponse{}, false
	}
	s, err := wire.DecodeStatusResponse(p.data)
	return s, err == nil
}

// pair is a server and the environment of its clients, both recorded by a watch.
type pair struct {
	t      *testing.T
	on     string
	watch  *watch
	tap    *tapped
	server *Server
	hook   *fault.Provider // of the server
	addr   net.Addr
	dir    string
}

// newPair starts a server over a provider, with a directory of its own.
func newPair(t *testing.T, on string, l Limits) *pair {
	t.Helper()
	p := &pair{t: t, on: on, watch: new(watch), tap: new(tapped), dir: t.TempDir()}
	p.hook = p.watch.wrap(providers[on](), "server")
	p.server, p.addr, _ = newServer(t, context.Background(), Config{
		ServerName: "here", Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{p.hook}, Limits: l,
	}, p.dir)
	return p
}

// dial returns a client that requires RDMA.
func (p *pair) dial(cfg lwio.Config) *lwio.Client {
	p.t.Helper()
	cfg.RequireRDMA = true
	cfg.DialContext = p.tap.dial
	if cfg.Providers == nil {
		cfg.Providers = []rdma.Provider{p.watch.wrap(providers[p.on](), "client")}
	}
	c, err := lwio.Dial(p.t.Context(), "lwio://alice:secret@"+p.addr.String()+"/share", &cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	if got := c.Transport(); got.Name != p.on {
		p.t.Fatalf("the transport is %v", got)
	}
	return c
}

// file creates a file and opens it.
func (p *pair) file(c *lwio.Client, name string, content []byte) *lwio.File {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o600); err != nil {
		p.t.Fatal(err)
	}
	f, err := c.OpenFile(p.t.Context(), name, os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

// wantRead reads at an offset and demands the given bytes.
func (p *pair) wantRead(f *lwio.File, off int64, want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, off); n != len(want) || err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("read %d bytes at %d: %d, %v", len(want), off, n, err)
	}
}

// wantFile demands the content of the server's file.
func (p *pair) wantFile(name string, want []byte) {
	p.t.Helper()
	got, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("%s holds %d bytes that are not those %d, %v", name, len(got), len(want), err)
	}
}

// tapped records the bytes of SMB's connections, in each direction.
type tapped struct {
	mu            sync.Mutex
	to, from      bytes.Buffer
	conversations int
}

func (w *tapped) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	w.mu.Lock()
	w.conversations++
	w.mu.Unlock()
	return &tappedSMB{nc, w}, err
}

// bytes returns copies of both directions.
func (w *tapped) bytes() (to, from []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.to.Bytes()), bytes.Clone(w.from.Bytes())
}

type tappedSMB struct {
	net.Conn
	w *tapped
}

func (c *tappedSMB) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	c.w.to.Write(p)
	c.w.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *tappedSMB) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	c.w.from.Write(p[:n])
	c.w.mu.Unlock()
	return n, err
}

// frames cuts a direction of SMB's connection into its messages.
func frames(t *testing.T, stream []byte) (all [][]byte) {
	t.Helper()
	for len(stream) > 0 {
		n := int(binary.BigEndian.Uint32(stream))
		all = append(all, stream[4:4+n])
		stream = stream[4+n:]
	}
	return all
}

// inUTF16 returns a name in the encoding of SMB.
func inUTF16(s string) (b []byte) {
	for _, r := range s {
		b = append(b, byte(r), byte(r>>8))
	}
	return b
}

// success demands that the server's answer is a success.
func (r *request) success(t *testing.T, information uint32) {
	t.Helper()
	if r.answer == nil || r.answer.Status != uint32(ntstatus.Success) || r.answer.Information != information {
		t.Fatalf("%v: the answer is %+v, want success and %d", r.h.Opcode, r.answer, information)
	}
}

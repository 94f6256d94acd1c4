package nbd

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/hexmsg"
	"lwio/lwiotest"
)

// patience bounds the waits of tests. Only a failure takes so long.
const patience = 30 * time.Second

// rig is a server with one export, "disk", in front of a share.
type rig struct {
	share *lwiotest.Server
	file  string // of the export, on this host
	sock  string
	log   *records
	end   func() // ends the server, without waiting
	done  <-chan struct{}
}

// rigConfig configures a rig.
type rigConfig struct {
	size     int // bytes
	readOnly bool
	share    lwiotest.Config
	client   lwio.Config
	server   Config
	names    []string // of more exports of the same file
}

// start runs a server until the test ends.
func start(t testing.TB, c rigConfig) *rig {
	t.Helper()
	if c.share.Dir == "" {
		c.share.Dir = t.TempDir()
	}
	r := &rig{file: filepath.Join(c.share.Dir, "disk.raw"), sock: filepath.Join(t.TempDir(), "s"), log: new(records)}
	if c.size == 0 {
		c.size = 1 << 20
	}
	if err := os.WriteFile(r.file, pattern(c.size), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := c.share.Backend
	if backend != nil {
		c.share.Dir = ""
	}
	r.share = lwiotest.NewServer(t, &c.share)
	client := r.share.Client(&c.client)
	for _, name := range append([]string{"disk"}, c.names...) {
		e, err := OpenExport(t.Context(), client, ExportConfig{Name: name, Path: "disk.raw", ReadOnly: c.readOnly})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		c.server.Exports = append(c.server.Exports, e)
	}
	c.server.Logger = slog.New(r.log)
	l, err := net.Listen("unix", r.sock)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := NewServer(&c.server).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	}()
	r.end, r.done = cancel, done
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// pattern is data in which each four bytes differ.
func pattern(n int) []byte {
	p := make([]byte, (n+3)/4*4)
	for i := 0; i < len(p); i += 4 {
		binary.BigEndian.PutUint32(p[i:], uint32(i)*2654435761)
	}
	return p[:n]
}

// content is the content of the file now.
func (r *rig) content(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// records is a log that keeps the messages.
type records struct {
	mu  sync.Mutex
	all []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r.all = append(r.all, text)
	return nil
}

// peer is a client of the protocol that shares no code with the server.
type peer struct {
	net.Conn
	t testing.TB
	f hexmsg.Fields
}

// connect connects a client, which has sent and received nothing.
func (r *rig) connect(t testing.TB) *peer {
	t.Helper()
	c, err := net.Dial("unix", r.sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &peer{c, t, hexmsg.Fields{}}
}

// send sends a message of hexadecimal words.
func (p *peer) send(template string) {
	p.t.Helper()
	b, err := p.f.Make(template)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("send %s: %v", template, err)
	}
}

// want receives a message of hexadecimal words; NAME:N is a field of N bytes.
func (p *peer) want(template string) {
	p.t.Helper()
	n := 0
	for _, w := range splitWords(template) {
		n += p.sizeOf(w)
	}
	b := p.read(n)
	if err := p.f.Match(template, b); err != nil {
		p.t.Fatalf("got %x, want %s: %v", b, template, err)
	}
}

// read receives n bytes.
func (p *peer) read(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	if got, err := io.ReadFull(p, b); err != nil {
		p.t.Fatalf("%d bytes of %d: %x, %v", got, n, b[:got], err)
	}
	return b
}

// wantEnd receives the end of the connection.
func (p *peer) wantEnd() {
	p.t.Helper()
	if b, err := io.ReadAll(p); len(b) > 0 || isTimeout(err) {
		p.t.Fatalf("%d bytes more: %.64x, %v", len(b), b, err)
	}
}

// greet exchanges the greetings.
func (p *peer) greet() *peer {
	p.t.Helper()
	p.want("4e42444d41474943 49484156454f5054 0003")
	p.send("00000003")
	return p
}

// optStructured is the option of structured replies, and its answer.
const (
	optMagic      = "49484156454f5054 "
	repMagic      = "0003e889045565a9 "
	optStructured = optMagic + "00000008 00000000"
	repStructured = repMagic + "00000008 00000001 00000000"
)

// choose chooses the export "disk", with or without structured replies.
func (p *peer) choose(structured bool) *peer {
	p.t.Helper()
	if structured {
		p.send(optStructured)
		p.want(repStructured)
	}
	p.send(optMagic + "00000007 0000000a 00000004 6469736b 0000")
	p.want(repMagic + "00000007 00000003 0000000c 0000 Size:8 Flags:2")
	p.want(repMagic + "00000007 00000003 0000000e 0003 00000001 00001000 02000000")
	p.want(repMagic + "00000007 00000001 00000000")
	return p
}

// transmit connects a client up to the transmission.
func (r *rig) transmit(t testing.TB, structured bool) *peer {
	t.Helper()
	return r.connect(t).greet().choose(structured)
}

// wantNoListener waits until the server does not listen.
func (r *rig) wantNoListener(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		c, err := net.Dial("unix", r.sock)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("the server listens")
		}
	}
}

// secure makes the connection use TLS.
func (p *peer) secure(c *tls.Config) *peer {
	p.t.Helper()
	p.send(optMagic + "00000005 00000000")
	p.want(repMagic + "00000005 00000001 00000000")
	s := tls.Client(p.Conn, c)
	if err := s.Handshake(); err != nil {
		p.t.Fatal(err)
	}
	p.Conn = s
	return p
}

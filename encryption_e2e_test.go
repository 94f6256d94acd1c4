package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
	"lwio/server"
)

// roundTrip writes a file and reads it back.
func roundTrip(t *testing.T, c *lwio.Client) {
	t.Helper()
	want := random(300_000, 3)
	put(t, c, "encrypted", want)
	f, err := c.OpenFile(t.Context(), "encrypted", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
		t.Error(n, err)
	}
}

// wantCipher checks that the transport of a client over SMB names a cipher only if it is encrypted.
func wantCipher(t *testing.T, c *lwio.Client, encrypted bool) {
	t.Helper()
	want := ""
	if encrypted {
		want = "AES-128-GCM"
	}
	if tr := c.Transport(); tr.Name != lwio.TransportSMB || tr.Encryption != want {
		t.Errorf("transport %v, encryption %q, want %q", tr, tr.Encryption, want)
	}
}

// A client works with each choice of the server. It requires encryption by its configuration or
// by the URL; a server without encryption is then refused.
//
// Source: [MS-SMB2 3.2.4.1.8]
func TestEncryptionOfClientAndServer(t *testing.T) {
	for _, e := range []server.Encryption{server.EncryptionOffered, server.EncryptionOff, server.EncryptionRequired} {
		t.Run(e.String(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true, Encryption: e})
			c := s.Client(nil)
			wantCipher(t, c, e == server.EncryptionRequired)
			roundTrip(t, c)
			for name, url := range map[string]string{"configuration": s.URL(), "URL": s.URL() + "?encryption=required"} {
				c, err := lwio.Dial(t.Context(), url, &lwio.Config{RequireEncryption: name == "configuration"})
				if e == server.EncryptionOff {
					if err == nil || !strings.Contains(err.Error(), "encryption is required") {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(name, err)
				}
				wantCipher(t, c, true)
				roundTrip(t, c)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// encryptions are the places where encryption can be required.
var encryptions = map[string]struct {
	server lwiotest.Config
	client lwio.Config
}{
	"client": {client: lwio.Config{RequireEncryption: true}},
	"server": {server: lwiotest.Config{Encryption: server.EncryptionRequired}},
	"share":  {server: lwiotest.Config{RequireEncryption: true}},
}

// A client that requires encryption, or the server or the share of which does, seals its connection
// over a provider that is not confidential. A close of the client is none of the errors of the server.
//
// Source: [OP-114] [OP-114b]
func TestRequiredEncryptionSealsRDMA(t *testing.T) {
	for by, e := range encryptions {
		s := lwiotest.NewServer(t, &e.server)
		for _, p := range lwio.DefaultProviders() {
			cfg := e.client
			cfg.RequireRDMA, cfg.Providers = true, []rdma.Provider{p}
			c := s.Client(&cfg)
			tr := c.Transport()
			want := map[string]string{"iwarp": "AES-128-GCM"}[p.Name()]
			if tr.Name != p.Name() || tr.Encryption != want || strings.Contains(tr.String(), "encrypted with AES-128-GCM") != (want != "") {
				t.Errorf("%v: transport %v", by, tr)
			}
			roundTrip(t, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		waitUntil(t, func() bool { return s.Server.Stats().Connections == 0 })
		if st := s.Server.Stats(); st.Lost+st.Cut != 0 {
			t.Errorf("%v: %d connections are lost and %d cut after a close", by, st.Lost, st.Cut)
		}
	}
}

// slowReceiver is a tracer that delays results of receives once it is set.
type slowReceiver struct{ on atomic.Bool }

func (r *slowReceiver) Event(e fault.Event) {
	if done, ok := e.(fault.Completed); ok && done.Op == rdma.OpReceive && r.on.Load() {
		time.Sleep(30 * time.Millisecond)
	}
}

// A client that closes a sealed connection logs off when the server has read the announcement of the end, although the
// server is slow at that.
//
// Source: [OP-114b]
func TestLogoffFollowsTheEndOfSealedConnection(t *testing.T) {
	var slow slowReceiver
	s := lwiotest.NewServer(t, &lwiotest.Config{
		RequireEncryption: true,
		Providers:         []rdma.Provider{fault.Wrap(iwarp.New(nil), &fault.Config{Tracer: &slow})},
	})
	c := s.Client(&lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{iwarp.New(nil)}})
	roundTrip(t, c)
	slow.on.Store(true)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	waitUntil(t, func() bool { return s.Server.Stats().Connections == 0 })
	if st := s.Server.Stats(); st.Lost+st.Cut != 0 {
		t.Errorf("%d connections are lost and %d cut after a close", st.Lost, st.Cut)
	}
}

// claimed is iWARP that claims to be confidential, so that a client does not ask for sealed connections.
type claimed struct{ rdma.Provider }

func (p claimed) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return claimedAdapter{a}, err
}

type claimedAdapter struct{ rdma.Adapter }

func (a claimedAdapter) Info() rdma.AdapterInfo {
	info := a.Adapter.Info()
	info.Caps |= rdma.CapConfidential
	return info
}

// A file that requires encryption is refused at REGISTER over a connection that is not sealed. Its data
// goes over encrypted SMB, and the client and the server say so. A client that requires RDMA gets an error.
//
// Source: [OP-114]
func TestRefusedRegisterLeadsToEncryptedSMB(t *testing.T) {
	for by, e := range encryptions {
		if by == "client" {
			continue // the requirement is unknown to the server
		}
		t.Run(by, func(t *testing.T) {
			var serverLog, clientLog logBuffer
			e.server.Logger = serverLog.logger()
			s := lwiotest.NewServer(t, &e.server)
			cfg := lwio.Config{Providers: []rdma.Provider{claimed{iwarp.New(nil)}}, Logger: clientLog.logger()}
			c := s.Client(&cfg)
			if tr := c.Transport(); tr.Name != "iwarp" || tr.Encryption != "" {
				t.Fatalf("the connection is not plain: %v", tr)
			}
			roundTrip(t, c)
			f, err := c.OpenFile(t.Context(), "encrypted", os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
				t.Error(err)
			}
			tr := f.Transport()
			if tr.Name != lwio.TransportSMB || tr.Encryption != "AES-128-GCM" || !strings.Contains(tr.Reason, "REGISTER: STATUS_ACCESS_DENIED") {
				t.Errorf("transport %v, encryption %q, reason %q", tr, tr.Encryption, tr.Reason)
			}
			if st := c.Stats(); st.RDMA.ReadBytes+st.RDMA.WrittenBytes != 0 || st.SMB.ReadBytes == 0 || st.SMB.WrittenBytes == 0 {
				t.Errorf("traffic over RDMA %+v, over SMB %+v", st.RDMA, st.SMB)
			}
			if log := clientLog.String(); !strings.Contains(log, "file goes over SMB") || !strings.Contains(log, "STATUS_ACCESS_DENIED") {
				t.Errorf("the log of the client: %s", log)
			}
			if log := serverLog.String(); !strings.Contains(log, "requires encryption, and the connection is not sealed") {
				t.Errorf("the log of the server: %s", log)
			}
			cfg.RequireRDMA = true
			c = s.Client(&cfg)
			f, err = c.OpenFile(t.Context(), "encrypted", os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, lwio.ErrNoRDMA) || !strings.Contains(err.Error(), "STATUS_ACCESS_DENIED") {
				t.Errorf("with RDMA required: %v", err)
			}
		})
	}
}

// logBuffer collects a log.
type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

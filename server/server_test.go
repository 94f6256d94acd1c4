package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// newServer makes a server of a directory and starts it.
func newServer(t *testing.T, ctx context.Context, cfg Config, path string) (s *Server, addr net.Addr, served chan error) {
	t.Helper()
	dir, err := posix.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return newServerOf(t, ctx, cfg, dir)
}

// newServerOf is newServer with another backend.
func newServerOf(t *testing.T, ctx context.Context, cfg Config, b vfs.Backend) (s *Server, addr net.Addr, served chan error) {
	t.Helper()
	var err error
	if cfg.FS, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "share", Backend: b}}}); err != nil {
		t.Fatal(err)
	}
	cfg.Limits.AuthTimeout = cmp.Or(cfg.Limits.AuthTimeout, patience)
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		cfg.FS.Close()
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	return s, l.Addr(), served
}

func dialAndSitThere(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServeUntilClosed(t *testing.T) {
	cfg := Config{Providers: []rdma.Provider{iwarp.New(nil)}}
	for name, end := range map[string]func(s *Server) error{
		"Close":    (*Server).Close,
		"Shutdown": func(s *Server) error { return s.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, served := newServer(t, context.Background(), cfg, t.TempDir())
			dialAndSitThere(t, addr)
			eventually(t, "a client is there", func() bool { return s.Stats().SMBConnections == 1 })
			if err := end(s); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if err := end(s); err != nil {
				t.Errorf("a second time: %v", err)
			}
			if _, err := net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
				t.Error("it still listens")
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(context.Background(), l); err != nil {
				t.Errorf("Serve after the end: %v", err)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s, addr, served := newServer(t, ctx, Config{Providers: []rdma.Provider{iwarp.New(nil)}}, t.TempDir())
	dialAndSitThere(t, addr)
	eventually(t, "a client is there", func() bool { return s.Stats().SMBConnections == 1 })
	cause := errors.New("enough")
	cancel(cause)
	if err := <-served; !errors.Is(err, cause) {
		t.Errorf("Serve: %v", err)
	}
}

// A server cuts stalled connections and balances credits.
func TestServerCutsStallsAndBalancesCredits(t *testing.T) {
	s, _, _ := newServer(t, t.Context(), Config{Limits: Limits{StallTimeout: 20 * time.Millisecond}}, t.TempDir())
	c := &conn{auth: authenticator{passed: true}}
	c.ctx, c.cancel = context.WithCancelCause(t.Context())
	c.send.inUse.Store(1)
	c.credits.hint.Store(1)
	table := &s.engine.conns
	table.mu.Lock()
	table.all[c] = struct{}{}
	table.mu.Unlock()
	eventually(t, "it is cut", func() bool { return errors.Is(context.Cause(c.ctx), errStalled) })
	eventually(t, "its hint is taken", func() bool { return c.credits.hint.Load() == 0 })
	table.mu.Lock()
	delete(table.all, c)
	table.mu.Unlock()
}

// absent is a provider without a device.
type absent struct{ rdma.Provider }

func (absent) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) {
	return nil, &rdma.Error{Op: "open adapter", Status: rdma.StatusDeviceNotReady, Err: errors.New("not here")}
}

// A provider without a device is left out, with a line in the log; if there is no other, Serve
// fails.
func TestProviderWithoutDeviceIsLeftOut(t *testing.T) {
	p, log := iwarp.New(nil), new(bytes.Buffer)
	cfg := Config{Providers: []rdma.Provider{absent{p}, p}, Logger: slog.New(slog.NewTextHandler(log, nil))}
	s, addr, served := newServer(t, t.Context(), cfg, t.TempDir())
	dialAndSitThere(t, addr)
	eventually(t, "a client is there", func() bool { return s.Stats().SMBConnections == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil || !strings.Contains(log.String(), "not here") {
		t.Errorf("%v, %s", err, log)
	}
	_, _, served = newServer(t, t.Context(), Config{Providers: []rdma.Provider{absent{p}}}, t.TempDir())
	if err := <-served; rdma.StatusOf(err) != rdma.StatusDeviceNotReady {
		t.Error(err)
	}
}

// A provider that cannot listen makes Serve fail.
func TestBrokenProviderFailsServe(t *testing.T) {
	broken := iwarp.New(&iwarp.Config{Listen: func(context.Context, *net.TCPAddr) (net.Listener, error) {
		return nil, errors.New("no such luck")
	}})
	_, _, served := newServer(t, context.Background(), Config{Providers: []rdma.Provider{iwarp.New(nil), broken}}, t.TempDir())
	if err := <-served; err == nil {
		t.Error("it served")
	}
}

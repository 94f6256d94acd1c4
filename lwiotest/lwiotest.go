// Package lwiotest runs an LWIO server inside a test: on loopback, with a free port, a temporary
// directory and a random password.
//
//	s := lwiotest.NewServer(t, nil)
//	c := s.Client(nil)
//	f, err := c.Create(ctx, "greeting")
//
// The server and the clients are closed when the test ends. [Start] is for programs that are not
// tests.
package lwiotest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/rdma"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// The user and the share of every server.
const (
	User  = "tester"
	Share = "share"
)

// Config configures a server. Nil and the zero value work.
type Config struct {
	// Dir is the directory to serve; "" means a temporary one.
	Dir string
	// Backend is served instead of a directory, if it is set. The server closes it, also if the start
	// fails.
	Backend vfs.Backend
	// ReadOnly makes the share read-only.
	ReadOnly bool
	// Providers are the providers on which LWIO is offered; nil means lwio.DefaultProviders().
	Providers []rdma.Provider
	// SMBOnly makes the server offer SMB alone.
	SMBOnly bool
	// AllowMD5 accepts clients whose signature has no key.
	AllowMD5 bool
	// Encryption says which connections are protected; see server.Config.
	Encryption server.Encryption
	// RequireEncryption makes the share refuse clients that do not encrypt; see vfs.Share.
	RequireEncryption bool
	// ImmediateData completes reads by immediate data where the provider has it.
	ImmediateData bool
	// DurableTimeout bounds the time for which the server keeps opens without a connection; see
	// server.Config.
	DurableTimeout time.Duration
	// Limits are the limits of the server.
	Limits server.Limits
	// Logger gets the log of the server; nil discards it.
	Logger *slog.Logger
}

// Server is a running server. Safe for concurrent use.
type Server struct {
	// Dir is the served directory; "" with Config.Backend.
	Dir string
	// Server is the server itself.
	Server *server.Server

	tb       testing.TB
	fs       *vfs.FS
	addr     string
	password string
	temp     string
	serving  chan error
	once     sync.Once
	err      error
}

// NewServer starts a server and closes it when the test ends. A failure to start fails the test.
func NewServer(tb testing.TB, cfg *Config) *Server {
	tb.Helper()
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.Dir == "" && c.Backend == nil {
		c.Dir = tb.TempDir()
	}
	s, err := Start(&c)
	if err != nil {
		tb.Fatal(err)
	}
	s.tb = tb
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Start starts a server. The caller closes it.
func Start(cfg *Config) (*Server, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	s := &Server{Dir: c.Dir, password: rand.Text(), serving: make(chan error, 1)}
	if err := s.start(&c); err != nil {
		s.cleanUp()
		return nil, fmt.Errorf("lwiotest: start: %w", err)
	}
	return s, nil
}

func (s *Server) start(cfg *Config) (err error) {
	backend := cfg.Backend
	if backend == nil {
		if s.Dir == "" {
			if s.temp, err = os.MkdirTemp("", "lwiotest"); err != nil {
				return err
			}
			s.Dir = s.temp
		}
		if backend, err = posix.OpenDir(s.Dir); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil && s.fs == nil {
			backend.Close()
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	share := vfs.Share{Name: Share, Backend: backend, ReadOnly: cfg.ReadOnly, RequireEncryption: cfg.RequireEncryption}
	s.fs, err = vfs.New(vfs.Config{Shares: []vfs.Share{share}, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	providers := cfg.Providers
	switch {
	case cfg.SMBOnly:
		providers = nil
	case providers == nil:
		providers = lwio.DefaultProviders()
	}
	s.Server, err = server.New(server.Config{
		FS: s.fs, Lookup: server.Users{User: s.password}.Lookup, Providers: providers,
		AllowMD5: cfg.AllowMD5, Encryption: cfg.Encryption, ImmediateData: cfg.ImmediateData, DurableTimeout: cfg.DurableTimeout, Limits: cfg.Limits,
		Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	go func() { s.serving <- s.Server.Serve(context.Background(), l) }()
	return nil
}

// Addr returns the address of the server, host:port.
func (s *Server) Addr() string { return s.addr }

// Password returns the password of User.
func (s *Server) Password() string { return s.password }

// URL returns the URL of the share, with user and password. elem is a path in it.
func (s *Server) URL(elem ...string) string {
	u := url.URL{Scheme: lwio.Scheme, User: url.UserPassword(User, s.password), Host: s.addr, Path: "/" + Share}
	return u.JoinPath(elem...).String()
}

// Client returns a client that is connected to the share and is closed when the test ends. A
// failure to connect fails the test. Client panics for a server of Start: use lwio.Dial there.
func (s *Server) Client(cfg *lwio.Config) *lwio.Client {
	if s.tb == nil {
		panic("lwiotest: Client of a server without a test; use lwio.Dial")
	}
	s.tb.Helper()
	c, err := lwio.Dial(context.Background(), s.URL(), cfg)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.tb.Error(err)
		}
	})
	return c
}

// Close stops the server, waits for it, and removes the directory if Start created it. A second
// Close returns the result of the first.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.err = s.Server.Close()
		if err := <-s.serving; s.err == nil {
			s.err = err
		}
		if err := s.cleanUp(); s.err == nil {
			s.err = err
		}
	})
	return s.err
}

func (s *Server) cleanUp() error {
	var errs []error
	if s.fs != nil {
		errs = append(errs, s.fs.Close())
	}
	if s.temp != "" {
		errs = append(errs, os.RemoveAll(s.temp))
	}
	return errors.Join(errs...)
}

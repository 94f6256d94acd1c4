// Package lwiotest runs an LWIO server inside a test: on loopback, with a free
// port, a temporary directory and a password of its own.
//
//	s := lwiotest.NewServer(t, nil)
//	c := s.Client(nil)
//	f, err := c.Create(ctx, "greeting")
//
// The server and the clients are closed when the test ends. [Start] is for
// programs that have no test at hand.
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

// Options change a server. Nil and the zero value work.
type Options struct {
	// Dir is the directory to serve; "" means a temporary one.
	Dir string
	// Backend is served instead of a directory, if it is set.
	Backend vfs.Backend
	// ReadOnly refuses changes.
	ReadOnly bool
	// Providers are the fabrics that LWIO is offered on; nil means lwio.Defaults().
	Providers []rdma.Provider
	// NoLWIO leaves SMB alone.
	NoLWIO bool
	// AllowMD5 accepts clients that sign as the text says, without a key.
	AllowMD5 bool
	// ImmediateData completes reads by immediate data where the provider has it.
	ImmediateData bool
	// Limits are those of the server.
	Limits server.Limits
	// Logger hears what the server does; nil is silent.
	Logger *slog.Logger
}

// Server is a running server. Safe for concurrent use.
type Server struct {
	// Dir is the directory that is served; "" with a Backend of the options.
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

// NewServer starts a server that lives as long as the test. It fails the test if
// it cannot.
func NewServer(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Dir == "" && o.Backend == nil {
		o.Dir = tb.TempDir()
	}
	s, err := Start(&o)
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

// Start starts a server, which the caller closes.
func Start(opts *Options) (*Server, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Server{Dir: o.Dir, password: rand.Text(), serving: make(chan error, 1)}
	if err := s.start(&o); err != nil {
		s.cleanUp()
		return nil, fmt.Errorf("lwiotest: start: %w", err)
	}
	return s, nil
}

func (s *Server) start(o *Options) (err error) {
	backend := o.Backend
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
	s.fs, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: Share, Backend: backend, ReadOnly: o.ReadOnly}}, Logger: o.Logger})
	if err != nil {
		return err
	}
	providers := o.Providers
	switch {
	case o.NoLWIO:
		providers = nil
	case providers == nil:
		providers = lwio.Defaults()
	}
	s.Server, err = server.New(server.Config{
		FS: s.fs, Lookup: server.Users{User: s.password}.Lookup, Providers: providers,
		AllowMD5: o.AllowMD5, ImmediateData: o.ImmediateData, Limits: o.Limits, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	go func() { s.serving <- s.Server.Serve(context.Background(), l) }()
	return nil
}

// Addr is the address of the server, host:port.
func (s *Server) Addr() string { return s.addr }

// Password is the password of User.
func (s *Server) Password() string { return s.password }

// URL is the URL of the share, with user and password. elem is a path in it.
func (s *Server) URL(elem ...string) string {
	u := url.URL{Scheme: lwio.Scheme, User: url.UserPassword(User, s.password), Host: s.addr, Path: "/" + Share}
	return u.JoinPath(elem...).String()
}

// Client connects to the share and closes with the test. It fails the test if it
// cannot. It is only for servers of NewServer.
func (s *Server) Client(cfg *lwio.Config) *lwio.Client {
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

// Close stops the server, waits for it, and removes the directory if Start made
// it. A second Close returns what the first did.
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

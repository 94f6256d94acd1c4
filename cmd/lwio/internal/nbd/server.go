package nbd

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Config configures a Server.
type Config struct {
	// Exports are the exports, at least one, with different names. The first one is the default export too. The caller
	// closes them after Serve.
	Exports []*Export
	// TLS is required of each connection if it is not nil.
	TLS *tls.Config
	// MaxConnections bounds the connections at a time; further ones wait. Each may hold 64 MiB of memory for
	// data while large requests are in flight. 0 means 64.
	MaxConnections int
	// HandshakeTimeout bounds a handshake. 0 means 10 s.
	HandshakeTimeout time.Duration
	// Timeout bounds how long a client may leave a reply unread. 0 means 30 s.
	Timeout time.Duration
	// Drain bounds how long the requests in flight may take when the server ends. 0 means 10 s.
	Drain time.Duration
	// Logger gets the events of connections; nil discards them.
	Logger *slog.Logger

	// shutdownGrace is the time of a handshake when the server ends, in which the client can send one more option, and
	// learn of the end. 0 means 1 s.
	shutdownGrace time.Duration
}

// Server serves exports to NBD clients.
type Server struct {
	cfg    Config
	places chan struct{} // one for each connection
	wg     sync.WaitGroup
}

// NewServer returns a server; Serve runs it.
func NewServer(cfg *Config) *Server {
	s := &Server{cfg: *cfg}
	defaults := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	defaults(&s.cfg.HandshakeTimeout, 10*time.Second)
	defaults(&s.cfg.Timeout, 30*time.Second)
	defaults(&s.cfg.Drain, 10*time.Second)
	defaults(&s.cfg.shutdownGrace, time.Second)
	if s.cfg.MaxConnections <= 0 {
		s.cfg.MaxConnections = 64
	}
	if s.cfg.Logger == nil {
		s.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s.places = make(chan struct{}, s.cfg.MaxConnections)
	return s
}

// export returns the export of a name; nil if there is none.
func (s *Server) export(name string) *Export {
	for _, e := range s.cfg.Exports {
		if e.cfg.Name == name {
			return e
		}
	}
	if name == "" {
		return s.cfg.Exports[0]
	}
	return nil
}

// acceptPause is the wait after a failed Accept, for example because of too few descriptors.
const acceptPause = 50 * time.Millisecond

// Serve serves the connections of l, which it closes, until ctx ends. Then it answers the requests that it has
// read, for Config.Drain at most, and closes all connections.
//
// Errors: net.ErrClosed, if another goroutine has closed l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	err := s.accept(ctx, working, l)
	defer time.AfterFunc(s.cfg.Drain, giveUp).Stop()
	s.wg.Wait()
	return err
}

// accept accepts connections until ctx ends.
func (s *Server) accept(ctx, working context.Context, l net.Listener) error {
	for {
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if err == nil {
			s.wg.Go(func() {
				defer func() { <-s.places }()
				s.serve(ctx, working, c)
			})
			continue
		}
		<-s.places
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		}
		s.cfg.Logger.Warn("nbd: accept", "addr", l.Addr(), "err", err)
		select {
		case <-time.After(acceptPause):
		case <-ctx.Done():
		}
	}
}

// serve serves a connection.
func (s *Server) serve(ctx, working context.Context, c net.Conn) {
	defer c.Close()
	log := s.cfg.Logger.With("client", c.RemoteAddr())
	h := &handshake{server: s, conn: c}
	_ = c.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout)) // an error comes from the next read too
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now().Add(s.cfg.shutdownGrace)) })
	e, err := h.run(ctx)
	stop()
	if err != nil {
		if !errors.Is(err, errLeft) {
			log.Warn("nbd: handshake failed", "err", err)
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	log.Debug("nbd: connected", "export", e.cfg.Name, "tls", h.secure, "structured", h.structured)
	t := &transmission{export: e, conn: h.conn, structured: h.structured, timeout: s.cfg.Timeout, log: log}
	stop = context.AfterFunc(ctx, t.drain)
	err = t.run(working)
	stop()
	if err != nil {
		log.Info("nbd: connection lost", "export", e.cfg.Name, "err", err)
		return
	}
	if h.secure {
		_ = h.conn.Close() // the alert that TLS ends with
	}
	log.Debug("nbd: disconnected", "export", e.cfg.Name)
}

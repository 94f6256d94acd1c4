package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"lwio/internal/smb/smbserver"
	"lwio/server/internal/association"
	"lwio/vfs"
)

// Server serves SMB and LWIO. Safe for concurrent use.
//
// Source: [LWIO claim 1] [LWIO claim 3] [LWIO claim 4]
type Server struct {
	cfg    Config
	smb    *smbserver.Server
	engine *engine

	mu       sync.Mutex
	listener net.Listener
	stopped  bool
}

// New makes a server, which serves nothing until Serve is called. The caller
// closes it, and cfg.FS after it.
//
// Errors: those of a configuration that makes no sense.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, engine: newEngine(&cfg)}
	smb := smbserver.Config{
		FS: cfg.FS, ServerName: cfg.ServerName, Lookup: cfg.Lookup, Logger: cfg.Logger,
		MaxConnections: cfg.Limits.SMBConnections, AuthFailures: cfg.Limits.AuthFailures,
		RequestRate: cfg.Limits.RequestRate, ByteRate: cfg.Limits.ByteRate, ByteBurst: cfg.Limits.ByteBurst, Memory: cfg.Limits.SMBMemory,
	}
	if len(cfg.Providers) > 0 {
		smb.Pipes = map[string]smbserver.PipeHandler{association.PipeName: pipe{s.engine.association}}
		smb.ResumeKeyContext = func(*smbserver.Session, *vfs.Open) []byte { return s.engine.association.ResumeContext() }
	}
	if s.smb, err = smbserver.New(smb); err != nil {
		s.engine.close()
		return nil, fmt.Errorf("server: new: %w", err)
	}
	s.engine.startWatching()
	return s, nil
}

// pipe is the association's end of the pipe on which clients negotiate.
//
// Source: [LWIO §Network Discovery] [OP-34]
type pipe struct{ a *association.Association }

// Transact answers a NEGOTIATE.
func (p pipe) Transact(ctx context.Context, s *smbserver.Session, request []byte, maxOutput int) ([]byte, error) {
	return p.a.Negotiate(ctx, s, request, maxOutput)
}

// Serve serves SMB on l and LWIO on the address of l, on a free port of each
// provider, until Shutdown or Close, after which it returns nil, or until ctx
// ends, which closes the server and gives ctx's cause. It may be called once,
// and closes l.
//
// Errors: a provider that cannot listen, a listener that fails.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	if s.stopped || s.listener != nil {
		stopped := s.stopped
		s.mu.Unlock()
		l.Close()
		if stopped {
			return nil
		}
		return errors.New("server: serve: called twice")
	}
	s.listener = l
	s.mu.Unlock()
	if err := s.engine.listen(ctx, s.cfg.Providers, hostOf(l.Addr())); err != nil {
		l.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	err := s.smb.Serve(l)
	switch {
	case ctx.Err() != nil:
		s.Close()
		return fmt.Errorf("server: serve: %w", context.Cause(ctx))
	case s.isStopped():
		return nil
	}
	return err
}

// hostOf is the IP address of a listener; the zero Addr if it has none.
func hostOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// stopListening refuses new clients and lets Serve return.
func (s *Server) stopListening() {
	s.mu.Lock()
	s.stopped = true
	l := s.listener
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	s.engine.stopListening()
}

// Shutdown takes no new clients, lets the requests finish that have arrived over
// LWIO, then those over SMB, and does what Close does. Clients that only sit there
// are not waited for.
//
// Errors: ctx's, if requests had to be cut off; those of Close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	err := s.engine.drain(ctx)
	if e := s.smb.Shutdown(ctx); err == nil {
		err = e
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("server: shutdown: %w", err)
	}
	return nil
}

// Close cuts all clients off, and waits until nothing of the server runs any
// more. A second Close does nothing.
func (s *Server) Close() error {
	s.stopListening()
	s.engine.close() // first: SMB waits for LWIO's I/O before it closes a file
	return s.smb.Close()
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	st := s.engine.count.snapshot()
	smb := s.smb.Stats()
	st.SMB, st.Sessions = smb.Connections, smb.Sessions
	st.SMBAuthFailures, st.SMBAuthLimited, st.BadSignatures = smb.AuthFailures, smb.AuthLimited, smb.BadSignatures
	st.SMBAccepted, st.SMBRefused = smb.Accepted, smb.Refused
	st.SMBReads, st.SMBWrites = Count{smb.Reads, smb.ReadBytes}, Count{smb.Writes, smb.WrittenBytes}
	st.Throttled += smb.Slowed
	st.SMBMemory, st.MaxSMBMemory = smb.Memory, s.cfg.Limits.SMBMemory
	st.ReadMemory, st.MaxReadMemory = s.engine.readMemory()
	files := s.cfg.FS.Stats()
	st.OpenFiles, st.MaxOpenFiles = files.Opens, files.MaxOpens
	st.SkippedEntries = files.SkippedNames
	st.Locks, st.LockWaits, st.MaxLocks, st.LockWaited = files.Locks-files.LockWaits, files.LockWaits, files.MaxLocks, files.LockWaited
	st.CreditBudget = s.engine.limits.CreditBudget
	st.ReadQueue, st.WriteQueue = s.engine.readers.length(), s.engine.writers.length()
	return st
}

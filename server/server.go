package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"lwio/internal/smb/smbserver"
	"lwio/internal/statefile"
	"lwio/internal/writelog"
	"lwio/server/internal/association"
)

// Server serves SMB and LWIO. Safe for concurrent use.
//
// Source: [LWIO claim 1] [LWIO claim 3] [LWIO claim 4]
type Server struct {
	cfg    Config
	smb    *smbserver.Server
	engine *engine
	state  *statefile.Log // nil without Config.StateDir, or if it is broken
	broken bool           // Config.StateDir is broken
	saved  sync.Once      // closeState
	ready  chan struct{}  // closed by Serve

	mu       sync.Mutex
	listener net.Listener
	stopped  bool
}

// New returns a server, which serves nothing until Serve is called. The caller closes it, and
// cfg.FS after it.
//
// If the files of Config.StateDir are damaged, or their disk fails, the server makes no durable opens, and says so
// in its log and by Stats.StateFailing.
//
// Errors: an invalid configuration; Config.StateDir is in use, open to other users or not a directory.
func New(cfg Config) (*Server, error) {
	ofUser := cfg.Limits.ConnectionsPerUser // its default depends on the kind of connections
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ready: make(chan struct{})}
	if cfg.StateDir != "" {
		if s.state, err = statefile.Open(cfg.StateDir); err != nil && !s.withoutState(err) {
			return nil, fmt.Errorf("server: new: %w", err)
		}
	}
	s.engine = newEngine(&cfg)
	var guid [16]byte // random
	if s.state != nil {
		cfg.FS.TrackWrites()
		guid = s.state.Instance()
	}
	smb := smbserver.Config{
		GUID: guid, FS: cfg.FS, ServerName: cfg.ServerName, Encryption: cfg.Encryption, Leases: cfg.Leases, Lookup: cfg.Lookup, Logger: cfg.Logger,
		Kerberos: cfg.Kerberos, RequireKerberos: cfg.RequireKerberos,
		MaxConnections: cfg.Limits.SMBConnections, MaxUserConnections: ofUser, AuthFailures: cfg.Limits.AuthFailures,
		KeepAlive: cfg.KeepAlive, Memory: cfg.Limits.SMBMemory, Known: s.engine.conns.known,
		Durable: smbserver.DurableConfig{Timeout: cfg.DurableTimeout, MaxOrphans: cfg.Limits.Orphans, State: s.state},
		Rates:   smbserver.Rates{Requests: cfg.Limits.RequestRate, Bytes: cfg.Limits.ByteRate, Burst: cfg.Limits.ByteBurst},
	}
	if len(cfg.Providers) > 0 {
		smb.Pipes = map[string]smbserver.PipeHandler{association.PipeName: pipe{s.engine.association}}
		smb.ResumeKeyContext = s.engine.association.ResumeContext
	}
	s.smb, err = s.newSMB(smb)
	if err != nil {
		s.engine.close()
		return nil, errors.Join(fmt.Errorf("server: new: %w", err), s.closeState())
	}
	s.restoreWrites()
	s.engine.startWatching()
	return s, nil
}

// newSMB makes the SMB server, with the state or, if that is broken, without durable opens.
func (s *Server) newSMB(cfg smbserver.Config) (*smbserver.Server, error) {
	if !s.broken {
		smb, err := smbserver.New(cfg)
		if err == nil || s.state == nil || !s.withoutState(err) {
			return smb, err
		}
	}
	cfg.Durable.State, cfg.Durable.Timeout = nil, -1
	return smbserver.New(cfg)
}

// withoutState gives the state up if err says that it is broken. Otherwise, and with Config.RequireState, it
// reports false.
func (s *Server) withoutState(err error) bool {
	if s.cfg.RequireState || !statefile.Broken(err) {
		return false
	}
	s.cfg.Logger.Error("the state cannot be used, and open files end with their connections", "err", errors.Join(err, s.closeState()))
	s.state, s.broken = nil, true
	return true
}

// pipe is the server's end of the pipe on which clients negotiate.
//
// Source: [LWIO §Network Discovery] [OP-34]
type pipe struct{ a *association.Association }

// Transact answers a NEGOTIATE.
func (p pipe) Transact(ctx context.Context, s *smbserver.Session, request []byte, maxOutput int) ([]byte, error) {
	return p.a.Negotiate(ctx, s.Lineage(), s.ApplicationKey(), request, maxOutput)
}

// Serve serves SMB on l, and LWIO at Config.RDMAListen, or on the address of l, on a free port of
// each provider. After Shutdown or Close it returns nil. The end of ctx closes the server; then
// Serve returns the cause of ctx. Serve may be called once, and closes l.
//
// Errors: a provider cannot listen, the listener fails.
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
	close(s.ready)
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

// Ready returns a channel that is closed once Serve listens on all providers and accepts clients.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// hostOf returns the IP address of a listener; the zero Addr if it has none.
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

// Shutdown refuses new clients, waits until the requests that have arrived over LWIO and over SMB
// are answered, tells the clients over SMB that no other request was begun, and closes the server. It
// waits for idle clients, and for clients that are logging on, a tenth of a second each at most.
//
// Errors: the error of ctx, if it ended before all requests were answered; the errors of
// Close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	drained := make(chan struct{})
	var err error
	go func() {
		defer close(drained)
		err = s.engine.drain(ctx)
	}()
	e := s.smb.Shutdown(ctx, drained)
	if <-drained; err == nil {
		err = e
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("server: shutdown: %w", err)
	}
	return nil
}

// Close ends all connections, and waits until no goroutine of the server runs. A second Close
// does nothing.
func (s *Server) Close() error {
	s.stopListening()
	s.engine.close() // first: SMB waits for LWIO's I/O before it closes a file
	return errors.Join(s.smb.Close(), s.closeState())
}

// restoreWrites loads the writes of an earlier process, and has the writes of this one kept. Without durable opens it removes the
// former. Precondition: the opens are
// restored, and there are no others.
func (s *Server) restoreWrites() {
	if s.state == nil {
		return
	}
	log := s.cfg.Logger
	if s.cfg.DurableTimeout < 0 {
		if err := writelog.Discard(s.cfg.StateDir); err != nil {
			log.Error("lwio: the state has files of an earlier process", "err", err)
		}
		return
	}
	w := &writeRecords{dir: s.cfg.StateDir, boot: s.state.BootID(), logger: log}
	if results, doubts := s.engine.replay.load(w, s.cfg.FS, time.Now()); results+doubts > 0 {
		log.Info("lwio: writes restored", "results", results, "in_doubt", doubts)
	}
	s.engine.records = w
}

// closeState closes the state and the logs of writes, whose records stay. Precondition: the engine is
// closed.
func (s *Server) closeState() (err error) {
	s.saved.Do(func() {
		if s.state != nil {
			err = errors.Join(s.engine.replay.close(), s.state.Close())
		}
	})
	return err
}

// Reauthorize applies changes of users and rights to the clients that are connected. It ends the SMB
// sessions whose user Config.Lookup no longer returns, or returns with another password, with their
// RDMA connections. It closes the opens that the present rights on their share forbid
// (vfs.Share.Rights), over SMB and RDMA. It first makes all of them refuse requests, so a file system
// that does not answer one user delays no other. It returns when these sessions and opens are
// closed. A logon or an open that begins meanwhile has the new users and rights. The caller changes
// the results of Config.Lookup and Share.Rights first. Safe for concurrent use.
func (s *Server) Reauthorize() {
	var closed sync.WaitGroup
	var opens int
	closed.Go(func() { opens = s.cfg.FS.Reauthorize() })
	sessions := s.smb.Reauthorize()
	closed.Wait()
	s.cfg.Logger.Info("users and rights applied", "ended_sessions", sessions, "closed_opens", opens)
}

// Stats returns a snapshot of the state and the counters.
func (s *Server) Stats() Stats {
	smb, files := s.smb.Stats(), s.cfg.FS.Stats()
	return Stats{
		SMBStats: SMBStats{
			SMBConnections: smb.Connections, Sessions: smb.Sessions, SMBAccepted: smb.Accepted, SMBRefused: smb.Refused,
			SMBReads: Count{smb.Reads, smb.ReadBytes}, SMBWrites: Count{smb.Writes, smb.WrittenBytes},
			SMBAuthFailures: smb.AuthFailures, SMBAuthLimited: smb.AuthLimited, BadSignatures: smb.BadSignatures,
		},
		DurableStats:   s.durableStats(&smb),
		RDMAStats:      s.engine.stats(),
		SkippedEntries: files.SkippedEntries, WaitingLocks: files.WaitingLocks, LockWaits: files.LockWaits,
		Leases: files.Leases, LeaseBreaks: files.LeaseBreaks, LeasesRevoked: files.LeasesRevoked,
		Throttled: s.engine.count.throttled.Load() + smb.Slowed,
	}
}

func (s *Server) durableStats(smb *smbserver.Stats) DurableStats {
	st := DurableStats{
		Suspended: smb.Suspended, Orphans: smb.Orphans, Resumed: smb.Resumed, Reclaimed: smb.Reclaimed,
		OrphansExpired: smb.Expired, OrphansRefused: smb.OrphansRefused, OrphansSurrendered: smb.Surrendered, Restored: smb.Restored, NotRestored: smb.NotRestored,
	}
	if s.state != nil {
		state := s.state.Stats()
		st.StateRecords, st.StateBytes, st.StateFailing = state.Records, state.FileBytes, state.Failure != nil || smb.StateFailing
	}
	st.StateFailing = st.StateFailing || s.broken
	if w := s.engine.records; w != nil {
		st.WriteLogFailing = w.failing.Load()
	}
	return st
}

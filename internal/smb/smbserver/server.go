package smbserver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/account"
	"lwio/internal/evict"
	"lwio/internal/host"
	"lwio/internal/ratelimit"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// Server serves SMB. It is safe for concurrent use.
type Server struct {
	cfg       Config
	start     time.Time
	hint      []byte // the SPNEGO token of NEGOTIATE responses; read-only
	bufs      smbbuf.Pool
	stats     counters
	peerLog   ratelimit.Log // of lines that unauthenticated peers can cause
	auditLog  ratelimit.Log // of lines of the audit log that unauthenticated peers can cause
	authLimit *authLimit
	users     *account.Sum // connections with an authenticated session
	memory    *account.Sum // of messages and sessions, beyond the allowances of connections
	held      *account.Sum // the part of it that parked requests and watches hold
	lineages  *lineages

	openIDs atomic.Uint64

	wg        sync.WaitGroup // one for every connection
	accepting sync.WaitGroup // one for every Serve

	mu        sync.Mutex
	stopped   bool // no Serve begins
	closed    bool // no connection begins
	listeners map[net.Listener]struct{}
	conns     evict.Table[*conn]
	sessions  map[uint64]*Session
	limiters  map[string]*ratelimit.Limiter // of users that have logged on
}

// counters are the counters of Stats.
type counters struct {
	accepted, refused, requests, badSignatures, authFailures, authLimited, slowed atomic.Uint64

	reads, readBytes, writes, writtenBytes atomic.Uint64
}

// copied counts a copy within the server.
func (c *counters) copied(done *smbwire.CopyChunkResponse) {
	c.reads.Add(uint64(done.Chunks))
	c.readBytes.Add(uint64(done.TotalBytes))
	c.writes.Add(uint64(done.Chunks))
	c.writtenBytes.Add(uint64(done.TotalBytes))
}

// Stats is a snapshot of counters.
type Stats struct {
	// Connections and Sessions are the current numbers; sessions that have not
	// authenticated are not counted.
	Connections, Sessions int
	// Accepted and Refused count connections, Requests messages, since the start.
	// BadSignatures counts messages with a wrong signature, and messages that could not be
	// decrypted. AuthFailures counts failed authentications; AuthLimited counts the failed
	// authentications whose password was not compared, after too many wrong passwords. Slowed
	// counts requests delayed by the rates of their user.
	Accepted, Refused, Requests, BadSignatures, AuthFailures, AuthLimited, Slowed uint64
	// Reads and Writes count successful reads and writes of files; ReadBytes and
	// WrittenBytes are their bytes.
	Reads, ReadBytes, Writes, WrittenBytes uint64
	// Suspended is the number of lineages without a session, and Orphans the number of their
	// durable opens.
	Suspended, Orphans int
	// Resumed counts sessions that continued a lineage, and Reclaimed the orphans that their
	// clients have taken over. Expired counts the orphans whose time ended, and OrphansRefused the
	// durable opens that were closed with their connection because there were too many orphans.
	// Surrendered counts the orphans that were closed for an open or a change of another client.
	Resumed, Reclaimed, Expired, OrphansRefused, Surrendered uint64
	// Restored and NotRestored count the opens of the state at the start of the server.
	Restored, NotRestored int
	// StateFailing: the last durable open was refused, because the state could not be written.
	StateFailing bool
}

// New returns a server with a copy of the configuration. The caller calls Serve, and at
// the end Close.
func New(cfg Config) (*Server, error) {
	if cfg.FS == nil {
		return nil, errors.New("smbserver: new: no file system to serve")
	}
	if cfg.RequireKerberos && cfg.Kerberos == nil {
		return nil, errors.New("smbserver: new: Kerberos is required, but there is none")
	}
	cfg = cfg.withDefaults()
	memory := account.NewSum(cfg.Memory, 0)
	s := &Server{
		cfg:       cfg,
		conns:     evict.Table[*conn]{KnownAs: cfg.Known.UserOf},
		start:     time.Now(),
		hint:      (&smbauth.AcceptorConfig{Kerberos: cfg.Kerberos, RequireKerberos: cfg.RequireKerberos}).ServerHint(),
		authLimit: newAuthLimit(cfg.AuthFailures),
		users:     account.NewSum(int64(cfg.MaxConnections)*int64(cfg.MaxSessions), int64(cfg.MaxUserConnections)),
		memory:    memory,
		held:      account.NewSum(cfg.Memory/heldShare, 0),
		lineages:  newLineages(&cfg, memory),
		listeners: make(map[net.Listener]struct{}),
		sessions:  make(map[uint64]*Session),
		limiters:  make(map[string]*ratelimit.Limiter),
	}
	if cfg.Durable.State != nil {
		if err := s.restore(); err != nil {
			return nil, errors.Join(fmt.Errorf("smbserver: new: %w", err), s.Close())
		}
	}
	return s, nil
}

// Serve accepts connections until the listener fails or the server is closed. It then
// closes the listener and returns net.ErrClosed for a closed server, or the error of the
// listener. Several listeners may be served at a time.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		l.Close()
		return fmt.Errorf("smbserver: serve %v: %w", l.Addr(), net.ErrClosed)
	}
	s.listeners[l] = struct{}{}
	s.accepting.Add(1)
	s.mu.Unlock()
	defer s.accepting.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		l.Close()
	}()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.ServeConn(nc)
			continue
		}
		if s.isStopped() {
			return fmt.Errorf("smbserver: serve %v: %w", l.Addr(), net.ErrClosed)
		}
		if pause = retryPause(pause, err); pause == 0 {
			return fmt.Errorf("smbserver: serve %v: %w", l.Addr(), err)
		}
		s.cfg.Logger.Warn("smb: accept failed, trying again", "error", err, "pause", pause)
		time.Sleep(pause)
	}
}

// retryPause returns the pause after a temporary error of Accept, such as too few
// descriptors; zero for an error that is not temporary.
func retryPause(last time.Duration, err error) time.Duration {
	var ne interface{ Temporary() bool }
	if errors.Is(err, net.ErrClosed) || !errors.As(err, &ne) || !ne.Temporary() {
		return 0
	}
	return min(max(2*last, 5*time.Millisecond), time.Second)
}

// ServeConn serves one connection in the background; the server owns it from now on. If
// there are too many, a connection without an authenticated session is evicted, so silent
// peers do not keep clients out. If all have an authenticated session, the new connection
// is closed.
func (s *Server) ServeConn(nc net.Conn) {
	c := newConn(s, nc)
	if err := s.admit(c); err != nil {
		s.stats.refused.Add(1)
		s.peerLog.Warn(s.cfg.Logger, "smb: connection refused", "remote", nc.RemoteAddr(), "cause", err)
		nc.Close()
		return
	}
	s.stats.accepted.Add(1)
	if s.cfg.KeepAlive > 0 {
		host.KeepAlive(nc, s.cfg.KeepAlive)
	}
	c.start()
}

// admit adds a connection, and evicts another one if there are too many.
func (s *Server) admit(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errServerClosed
	}
	if s.conns.Len() >= s.cfg.MaxConnections && !s.evictLocked() {
		return errTooMany
	}
	s.conns.Add(c, c.origin)
	s.wg.Add(1)
	return nil
}

// evictLocked evicts the oldest unauthenticated connection of the busiest host; hosts from which users
// have logged on come last. It returns false if all connections have an authenticated session.
// Precondition: mu is held.
func (s *Server) evictLocked() bool {
	victim, ok := s.conns.Victim(func(c *conn) bool { return !c.sessions.authenticated() }) // which may change meanwhile
	if ok {
		s.conns.Remove(victim)
		victim.cut(errEvicted)
	}
	return ok
}

// remove removes a connection when its last goroutine ends.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	s.conns.Remove(c)
	s.mu.Unlock()
	s.wg.Done()
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// stopAccepting closes the listeners and refuses new ones. It does not wait for a connection that a
// listener has accepted.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	s.stopped = true
	ls := make([]net.Listener, 0, len(s.listeners))
	for l := range s.listeners {
		ls = append(ls, l)
	}
	s.mu.Unlock()
	for _, l := range ls {
		l.Close()
	}
}

// Shutdown stops accepting and reading requests, waits until all received requests have
// their responses and others (which may be nil) is closed, or ctx ends, and then closes the server. A client that takes
// notifications learns that none of its requests without a response was begun. It returns the error of
// ctx if requests were cut off.
func (s *Server) Shutdown(ctx context.Context, others <-chan struct{}) error {
	s.stopAccepting()
	s.accepting.Wait() // a connection that was accepted is drained, not refused
	s.refuse()
	for _, c := range s.connections() {
		c.drain(others)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.wg.Wait()
	}()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		err = fmt.Errorf("smbserver: shutdown: %w", ctx.Err())
	}
	s.Close()
	<-gone
	return err
}

// refuse refuses new connections.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// connections lists the connections.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(s.conns.All())
}

// Close stops accepting, cuts all connections, closes the opens of all clients, orphans included, and
// waits for all of that. It always returns nil, and may be called again.
func (s *Server) Close() error {
	s.stopAccepting()
	s.refuse()
	s.lineages.stop()
	for _, c := range s.connections() {
		c.cut(errServerClosed)
	}
	s.wg.Wait()
	s.lineages.close()
	return nil
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	st := Stats{
		Accepted: s.stats.accepted.Load(), Refused: s.stats.refused.Load(), Requests: s.stats.requests.Load(),
		Slowed: s.stats.slowed.Load(), BadSignatures: s.stats.badSignatures.Load(), AuthFailures: s.stats.authFailures.Load(),
		AuthLimited: s.stats.authLimited.Load(),
		Reads:       s.stats.reads.Load(), ReadBytes: s.stats.readBytes.Load(),
		Writes: s.stats.writes.Load(), WrittenBytes: s.stats.writtenBytes.Load(),
	}
	s.lineages.addTo(&st)
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Connections = s.conns.Len()
	for _, ss := range s.sessions {
		if ss.state.Load() == sessionValid {
			st.Sessions++
		}
	}
	return st
}

// Usage returns the charged memory of messages and sessions, the connections of users, and the orphans.
func (s *Server) Usage() (memory, connections, orphans account.Usage) {
	return s.memory.Usage(), s.users.Usage(), s.lineages.orphans.Usage()
}

// addSession adds a session under a new random id.
func (s *Server) addSession(ss *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var b [8]byte
		rand.Read(b[:])
		// The ids zero and all-ones have special meanings.
		id := binary.LittleEndian.Uint64(b[:]) &^ (1 << 63)
		if _, taken := s.sessions[id]; id != 0 && !taken {
			ss.id = id
			s.sessions[id] = ss
			return
		}
	}
}

func (s *Server) removeSession(ss *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ss.id)
}

// limiterOf returns the limiter that all sessions of a user share, nil for no bound.
func (s *Server) limiterOf(user string) *ratelimit.Limiter {
	if s.cfg.Rates.Requests <= 0 && s.cfg.Rates.Bytes <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limiters[user]
	if l == nil {
		l = ratelimit.NewLimiter(max(s.cfg.Rates.Requests, 0), max(s.cfg.Rates.Bytes, 0), s.cfg.Rates.Burst)
		s.limiters[user] = l
	}
	return l
}

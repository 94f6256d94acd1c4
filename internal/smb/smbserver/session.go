package smbserver

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/smb/smbauth"
)

// States of a session.
const (
	sessionPending int32 = iota // authentication is under way
	sessionValid
	sessionClosed
)

// Session is an authenticated user on a connection. Its lineage owns its opens. It is safe for
// concurrent use.
//
// Source: [MS-SMB2 3.3.1.8]
type Session struct {
	conn      *conn
	id        uint64
	state     atomic.Int32
	ctx       context.Context
	cancel    context.CancelFunc
	ended     sync.Once
	gone      chan struct{} // closed when the session has ended and its opens are closed
	loggedOff atomic.Bool
	counted   bool // in sessionTable.valid; guarded by sessionTable.mu

	// Fixed once the session is valid.
	user, domain string // the canonical name, and the domain as the client spelled it
	keys         smbauth.SessionKeys
	signer       smbauth.Signer
	cipher       *sessionCipher // nil if the connection has no encryption
	limiter      *ratelimit.Limiter
	lineage      *Lineage
	expiry       expiry
	// proven is the proof of the last logon, set when the session is valid.
	proven atomic.Pointer[proof]

	memory   account.Charge // of the session and its logon, until the end of the session
	logon    logon          // guarded by the connection's read turn
	handles  *handleTable
	requests inFlight
	used     atomic.Bool // a request has arrived: the client knows the session
}

// sessionMemory is the memory of a session, its handle table and its authentication, in bytes.
const sessionMemory = 8 << 10

// newSession returns a session; nil if its memory is not available.
func newSession(c *conn) *Session {
	memory, ok := c.memory.TryCharge(c.user, sessionMemory, account.Last)
	if !ok {
		return nil
	}
	s := &Session{memory: memory, conn: c, gone: make(chan struct{}), handles: newHandleTable(c.srv.cfg.MaxTrees, c.srv.cfg.MaxOpens)}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// ID returns the SMB session id. It is no secret.
func (s *Session) ID() uint64 { return s.id }

// User returns the canonical name of the user.
func (s *Session) User() string { return s.user }

// ApplicationKey returns the secret that client and server share for other protocols. Below
// dialect 3.0 it is the session key itself.
//
// Source: [MS-SMB2 3.3.1.8], [OP-46b]
func (s *Session) ApplicationKey() [16]byte { return s.keys.Application }

// Dialect returns the SMB dialect of the connection, such as 0x0311.
func (s *Session) Dialect() uint16 { return s.conn.agreed.dialect }

// Lineage returns the lineage of the session: the owner of its opens, and the identity that LWIO
// uses.
func (s *Session) Lineage() *Lineage { return s.lineage }

// Limiter bounds the requests and bytes of the user; nil is no bound.
func (s *Session) Limiter() *ratelimit.Limiter { return s.limiter }

// Done returns a channel that is closed when the session ends: by logoff, by a new session
// that continues or replaces it, or with its connection.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// RemoteAddr returns the client's address.
func (s *Session) RemoteAddr() net.Addr { return s.conn.nc.RemoteAddr() }

// LocalAddr returns the address at which the client reached the server.
func (s *Session) LocalAddr() net.Addr { return s.conn.nc.LocalAddr() }

// expires sets the end of the authentication, zero for none. Precondition: the session is valid.
func (s *Session) expires(at time.Time) {
	s.expiry.set(at, s.conn.srv.cfg.RenewalTime, func() {
		s.audit("session expired")
		s.end()
	})
	if !s.valid() {
		s.expiry.stop() // end may have been before set
	}
}

// valid reports whether the session is authenticated and has not ended.
func (s *Session) valid() bool { return s.state.Load() == sessionValid }

// add adds an open to the handles of the session under a new id.
func (s *Session) add(o *open) ntstatus.Status {
	return s.handles.add(o, s.conn.srv.openIDs.Add(1))
}

// end ends the session and its lineage, closes all opens, with their revoke hooks, and returns when
// that is done. Concurrent calls all wait.
//
// Source: [MS-SMB2 3.3.5.6], [OP-58b]
func (s *Session) end() {
	s.leave(s.conn.srv.lineages.end)
	if s.lineage != nil {
		s.lineage.endAfter(s) // if suspend has been before
	}
}

// suspend ends the session because its client has lost it. Its lineage goes on if there is anything to
// wait for. suspend closes all other opens.
//
// Source: [MS-SMB2 3.3.7.1]
func (s *Session) suspend() { s.leave(s.conn.srv.lineages.suspend) }

// retire is suspend for a session whose connection may live: requests in flight that change files end
// first. A request that does not end in time delays the reclaim of its open.
//
// Source: [OP-112]
func (s *Session) retire() {
	s.state.CompareAndSwap(sessionValid, sessionClosed)
	s.cancel()
	s.requests.wait(drainTime)
	s.suspend()
}

// leave ends the session. fate decides about its lineage and about its opens, and returns those that
// are to be closed.
func (s *Session) leave(fate func(*Session, []*open) (gone []*open, ended bool)) {
	s.ended.Do(func() {
		s.state.Store(sessionClosed)
		s.expiry.stop()
		s.cancel()
		opens, ended := s.handles.close(), false
		if s.lineage != nil {
			opens, ended = fate(s, opens)
		}
		closeAll(s.conn.srv.cfg.FS, opens)
		if ended {
			s.conn.srv.cfg.FS.CloseOwner(s.lineage)
		}
		s.conn.sessions.remove(s)
		s.conn.srv.removeSession(s)
		if s.proven.Load() != nil {
			s.audit("session ended", slog.Bool("logoff", s.loggedOff.Load()), slog.Bool("suspended", !ended))
		}
		s.memory.Return()
		close(s.gone)
	})
}

// evidence returns the evidence of the last logon.
func (s *Session) evidence() evidence {
	e := evidence{domain: s.domain, until: s.expiry.end()}
	if proven := s.proven.Load(); proven != nil {
		e.proof = *proven
	}
	return e
}

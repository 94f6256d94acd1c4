package smbserver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/smb/smbauth"
)

// States of a session.
const (
	sessionPending int32 = iota // authentication under way
	sessionValid
	sessionClosed
)

// Session is an authenticated user on a connection. It owns its opens in vfs,
// and is the identity on which LWIO builds. It is safe for concurrent use.
//
// Source: [MS-SMB2 3.3.1.8]
type Session struct {
	conn   *conn
	id     uint64
	state  atomic.Int32
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.Once
	left   atomic.Bool // the client has logged off

	// Fixed once the session is valid.
	user, domain string
	keys         smbauth.SessionKeys
	signer       smbauth.Signer
	pace         *ratelimit.Limiter

	// Used with the connection's turn held.
	acceptor *smbauth.Acceptor // nil while no authentication is under way
	preauth  smbauth.PreauthHash
	logon    logon

	counted bool // among conn.valid; guarded by conn.mu

	mu       sync.Mutex
	closed   bool
	trees    map[uint32]*tree
	lastTree uint32
	opens    map[uint64]*open // by volatile id
	pipes    int              // of the opens
}

// maxPipes is how many pipes a session may have open.
const maxPipes = 64

func newSession(c *conn) *Session {
	s := &Session{conn: c, trees: make(map[uint32]*tree), opens: make(map[uint64]*open)}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// ID is the SMB session id. It is no secret.
func (s *Session) ID() uint64 { return s.id }

// User is who logged on, as the client spelled it, without the domain.
func (s *Session) User() string { return s.user }

// ApplicationKey is the secret that client and server share for protocols
// beside SMB. Below dialect 3.0 it is the session key itself.
//
// Source: [MS-SMB2 3.3.1.8], [OP-46b]
func (s *Session) ApplicationKey() [16]byte { return s.keys.Application }

// Dialect is the SMB dialect of the connection, such as 0x0311.
func (s *Session) Dialect() uint16 { return s.conn.dialect }

// Limiter bounds the requests and bytes of the user; nil is no bound.
func (s *Session) Limiter() *ratelimit.Limiter { return s.pace }

// Done is closed when the session ends: by logoff, by a new session that
// replaces it, or with its connection. That is before its opens are closed.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// LoggedOff reports whether it was the client that ended the session, by LOGOFF. It is
// settled when Done is closed.
//
// Source: [MS-SMB2 3.3.5.6]
func (s *Session) LoggedOff() bool { return s.left.Load() }

// RemoteAddr is the client's address.
func (s *Session) RemoteAddr() net.Addr { return s.conn.nc.RemoteAddr() }

// LocalAddr is the address at which the client reached the server.
func (s *Session) LocalAddr() net.Addr { return s.conn.nc.LocalAddr() }

// valid reports whether the session may be used.
func (s *Session) valid() bool { return s.state.Load() == sessionValid }

// end closes the session and all its opens, with their revoke hooks, and
// returns when that is done. It may be called by several at a time.
//
// Source: [MS-SMB2 3.3.7.1], [OP-58b]
func (s *Session) end() {
	s.ended.Do(func() {
		s.state.Store(sessionClosed)
		s.cancel()
		s.mu.Lock()
		s.closed = true
		clear(s.opens)
		clear(s.trees)
		s.mu.Unlock()
		s.conn.srv.cfg.FS.CloseOwner(s)
		s.conn.dropSession(s)
		s.conn.srv.dropSession(s)
	})
}

// connect enters a tree connect.
func (s *Session) connect(t *tree, limit int) ntstatus.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ntstatus.UserSessionDeleted
	case len(s.trees) >= limit:
		return ntstatus.InsufficientResources
	}
	for {
		s.lastTree++
		if _, taken := s.trees[s.lastTree]; !taken && s.lastTree != 0 && s.lastTree != ^uint32(0) {
			break
		}
	}
	t.id = s.lastTree
	s.trees[t.id] = t
	return ntstatus.Success
}

// tree finds a tree connect, or nil.
func (s *Session) tree(id uint32) *tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trees[id]
}

// disconnect removes a tree connect and returns the opens that go with it.
func (s *Session) disconnect(t *tree) (gone []*open) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.trees, t.id)
	for id, o := range s.opens {
		if o.tree == t {
			gone = append(gone, o)
			s.countLocked(o, -1)
			delete(s.opens, id)
		}
	}
	return gone
}

// add enters an open and gives it its ids. It fails if session or tree have
// gone meanwhile, or if there are too many.
func (s *Session) add(o *open) ntstatus.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ntstatus.UserSessionDeleted
	case s.trees[o.tree.id] != o.tree:
		return ntstatus.NetworkNameDeleted
	case len(s.opens) >= s.conn.srv.cfg.MaxOpens:
		return ntstatus.TooManyOpenedFiles
	case o.pipe != nil && s.pipes >= maxPipes:
		return ntstatus.PipeNotAvailable
	}
	s.countLocked(o, 1)
	o.id = s.conn.srv.openIDs.Add(1)
	s.opens[o.id] = o
	return ntstatus.Success
}

// open finds an open, or nil.
func (s *Session) open(id uint64) *open {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens[id]
}

// remove takes an open out; false says that somebody else did.
func (s *Session) remove(o *open) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opens[o.id] != o {
		return false
	}
	s.countLocked(o, -1)
	delete(s.opens, o.id)
	return true
}

// countLocked counts a pipe in (d = 1) or out (d = -1).
func (s *Session) countLocked(o *open, d int) {
	if o.pipe != nil {
		s.pipes += d
	}
}

package smbserver

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/account"
	"lwio/internal/evict"
)

// sessionTable holds the sessions of one connection, and the time limit for a connection
// without an authenticated one. It is safe for concurrent use.
type sessionTable struct {
	limit       int
	authTimeout time.Duration
	connections *account.Sum // of users: one for each user with an authenticated session here
	known       *evict.Known // hosts: one for the same
	origin      netip.Prefix // the host of the connection

	valid atomic.Int32 // sessions that have authenticated; written with mu held

	mu       sync.Mutex
	byID     map[uint64]*Session
	deadline *time.Timer // runs while no session is authenticated
	stopped  bool
}

// maxPending bounds the sessions that begin to authenticate while none of the connection is
// authenticated.
const maxPending = 2

func newSessionTable(s *Server, origin netip.Prefix) *sessionTable {
	return &sessionTable{
		limit: s.cfg.MaxSessions, authTimeout: s.cfg.AuthTimeout, connections: s.users, known: s.cfg.Known, origin: origin,
		byID: make(map[uint64]*Session),
	}
}

// start begins the time limit. expired is called each time that the limit passes without an
// authenticated session.
func (t *sessionTable) start(expired func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = time.AfterFunc(t.authTimeout, func() {
		t.mu.Lock()
		late := t.valid.Load() == 0
		t.mu.Unlock()
		if late {
			expired()
		}
	})
}

// stop ends the time limit and returns the sessions, for the caller to end.
func (t *sessionTable) stop() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.deadline.Stop()
	all := make([]*Session, 0, len(t.byID))
	for _, s := range t.byID {
		all = append(all, s)
	}
	return all
}

// add adds a session that begins to authenticate; register gives it its id. It reports
// false if there are too many.
func (t *sessionTable) add(s *Session, register func(*Session)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.byID); n >= t.limit || n >= maxPending && t.valid.Load() == 0 {
		return false
	}
	register(s)
	t.byID[s.id] = s
	return true
}

// get returns the session with an id, or nil.
func (t *sessionTable) get(id uint64) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// establish makes a pending session valid. Its user has one connection more if the user has no other
// session here. It reports false if the user has too many connections.
func (t *sessionTable) establish(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hasUserLocked(s.user) {
		if !t.connections.Take(s.user, 1, account.Last) {
			return false
		}
		t.known.Enter(t.origin, s.user)
	}
	s.state.Store(sessionValid)
	s.counted = true
	t.valid.Add(1)
	t.deadline.Stop()
	return true
}

// hasUserLocked reports whether a user has a session that counts. Precondition: mu is held.
func (t *sessionTable) hasUserLocked(user string) bool {
	for _, s := range t.byID {
		if s.counted && s.user == user {
			return true
		}
	}
	return false
}

// remove removes a session. A connection without an authenticated session has to
// authenticate again within the time limit.
func (t *sessionTable) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] != s {
		return
	}
	delete(t.byID, s.id)
	if !s.counted {
		return
	}
	if !t.hasUserLocked(s.user) {
		t.connections.Give(s.user, 1, account.Last)
		t.known.Leave(t.origin)
	}
	if t.valid.Add(-1) == 0 && !t.stopped {
		t.deadline.Reset(t.authTimeout)
	}
}

// authenticated reports whether any session is authenticated.
func (t *sessionTable) authenticated() bool { return t.valid.Load() > 0 }

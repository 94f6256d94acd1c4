package server

import (
	"sync"
	"time"

	"lwio/internal/account"
	"lwio/internal/evict"
)

// connTable is the table of an engine's connections. It bounds their number: of all connections, of
// unauthenticated ones, and of the connections of each user. A displaced connection does not count
// with these; it is charged until it has released all its resources, and such connections have a
// bound of their own. Safe for concurrent use.
type connTable struct {
	limits *Limits
	count  *counters
	known  *evict.Known // hosts of connections that have passed AUTH, and of SMB sessions

	mu      sync.Mutex
	all     map[*conn]struct{}
	peers   evict.Table[*conn] // unauthenticated connections that are not displaced
	byID    map[[8]byte]*conn  // authenticated connections, by SessionId
	users   *account.Sum       // connections that have passed AUTH
	arrived uint64             // connections so far
	stopped bool               // new connections are refused
	empty   chan struct{}      // closed when all is empty; nil without a waiter
	change  sync.Cond          // a displaced connection is gone, or stopped is set
}

// connEntry is the entry of a connection in the table. connTable.mu guards it.
type connEntry struct {
	number    uint64 // in the order of arrival
	user      string // canonical name
	counted   bool   // included in connTable.users
	displaced bool   // evicted before AUTH, and counted as such until it is gone
}

// init makes t ready for use.
func (t *connTable) init(limits *Limits, count *counters, known *evict.Known) {
	t.limits, t.count, t.known = limits, count, known
	t.peers.KnownAs = known.UserOf
	t.all, t.byID = make(map[*conn]struct{}), make(map[[8]byte]*conn)
	t.users = account.NewSum(int64(limits.Connections+limits.Unauthenticated), int64(limits.ConnectionsPerUser))
	t.change.L = &t.mu
}

// enter adds a connection and calls start; false if there are too many, and all of them are
// authenticated. Otherwise the new connection displaces an unauthenticated one. So unauthenticated
// connections do not keep other clients out. While as many displaced connections as the limit of
// unauthenticated ones are not gone, enter waits: new connections do not come faster than the old
// ones go.
func (t *connTable) enter(c *conn, start func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.stopped && !t.hasRoomLocked() {
		switch {
		case t.count.unauthenticated.Load() == 0:
			return false
		case t.count.displaced.Load() < int64(t.limits.Unauthenticated):
			t.displaceLocked()
		default:
			t.change.Wait()
		}
	}
	if t.stopped {
		return false
	}
	t.count.connections.Add(1)
	t.count.unauthenticated.Add(1)
	t.count.accepted.Add(1) // before the connection is visible
	t.arrived++
	c.entry.number = t.arrived
	t.all[c] = struct{}{}
	t.peers.Add(c, c.peer.host)
	start()
	return true
}

// hasRoomLocked reports whether one more unauthenticated connection is within the limits.
func (t *connTable) hasRoomLocked() bool {
	return t.count.connections.Load() < int64(t.limits.Connections) &&
		t.count.unauthenticated.Load() < int64(t.limits.Unauthenticated)
}

// displaceLocked cuts an unauthenticated connection, which counts as displaced until it is gone.
func (t *connTable) displaceLocked() {
	oldest, _ := t.peers.Victim(nil) // there is one: unauthenticated counts it
	t.peers.Remove(oldest)
	oldest.entry.displaced = true
	t.count.displaced.Add(1)
	t.count.connections.Add(-1)
	t.count.unauthenticated.Add(-1)
	oldest.cut(errDisplaced)
}

// enterUser counts a connection of a user; false if the user has too many.
func (t *connTable) enterUser(c *conn, user string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.users.Take(user, 1, account.Last) {
		return false
	}
	c.entry.user, c.entry.counted = user, true
	return true
}

// pass makes c an authenticated connection, which find returns for its SessionId.
func (t *connTable) pass(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.auth.passed = true
	c.auth.since = time.Now()
	if t.peers.Remove(c) {
		t.count.unauthenticated.Add(-1)
	}
	t.byID[c.auth.sessionID] = c
	t.known.Enter(c.peer.host, c.entry.user)
}

// find returns the connection of a user with a SessionId; nil if there is none.
func (t *connTable) find(id [8]byte, user string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byID[id]; c != nil && c.auth.lineage.User() == user {
		return c
	}
	return nil
}

// authenticated returns all connections that have passed AUTH.
func (t *connTable) authenticated() []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var conns []*conn
	for c := range t.all {
		if c.auth.passed {
			conns = append(conns, c)
		}
	}
	return conns
}

// each calls f for each connection, with mu held.
func (t *connTable) each(f func(c *conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.all {
		f(c)
	}
}

// leave removes a connection that has released all its resources.
func (t *connTable) leave(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.entry.displaced:
		t.count.displaced.Add(-1)
		t.change.Broadcast()
	case t.peers.Remove(c):
		t.count.unauthenticated.Add(-1)
		fallthrough
	default:
		t.count.connections.Add(-1)
	}
	if c.entry.counted {
		t.users.Give(c.entry.user, 1, account.Last)
	}
	if t.byID[c.auth.sessionID] == c {
		delete(t.byID, c.auth.sessionID)
		t.known.Leave(c.peer.host)
	}
	delete(t.all, c)
	if len(t.all) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// stop refuses new connections.
func (t *connTable) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.change.Broadcast()
}

// drain makes all connections end after their requests in flight. It returns a channel that is
// closed once all have ended.
func (t *connTable) drain() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := make(chan struct{})
	if len(t.all) == 0 {
		close(gone)
	} else {
		t.empty = gone
	}
	for c := range t.all {
		c.startDraining()
	}
	return gone
}

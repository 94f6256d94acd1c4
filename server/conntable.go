package server

import (
	"net/netip"
	"sync"
	"time"
)

// connTable is the table of an engine's connections. It bounds their number: of all connections, of
// unauthenticated ones, and of the connections of each user. Safe for concurrent use.
type connTable struct {
	limits *Limits
	count  *counters

	mu      sync.Mutex
	all     map[*conn]struct{}
	byID    map[[8]byte]*conn // authenticated connections, by SessionId
	users   map[string]int    // number of connections of each user
	arrived uint64            // connections so far
	stopped bool              // new connections are refused
	empty   chan struct{}     // closed when all is empty; nil without a waiter
}

// connEntry is the entry of a connection in the table. connTable.mu guards it.
type connEntry struct {
	number    uint64 // in the order of arrival
	user      string // canonical name
	counted   bool   // included in connTable.users
	displaced bool   // evicted before AUTH; a newer connection has its place in the count
}

// init makes t ready for use.
func (t *connTable) init(limits *Limits, count *counters) {
	t.limits, t.count = limits, count
	t.all, t.byID, t.users = make(map[*conn]struct{}), make(map[[8]byte]*conn), make(map[string]int)
}

// enter adds a connection and calls start; false if there are too many. If only the
// unauthenticated connections are too many, the new connection evicts one of them. So
// unauthenticated connections do not keep other clients out.
func (t *connTable) enter(c *conn, start func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || !take(&t.count.connections, t.limits.Connections) {
		return false
	}
	if !take(&t.count.unauthenticated, t.limits.Unauthenticated) {
		t.displaceLocked()
	}
	t.count.accepted.Add(1) // before the connection is visible
	t.arrived++
	c.entry.number = t.arrived
	t.all[c] = struct{}{}
	start()
	return true
}

// displaceLocked cuts an unauthenticated connection and gives its place in the count to a new one.
// It chooses the oldest connection of the host with the most unauthenticated connections, so a
// host that floods the server evicts its own connections.
func (t *connTable) displaceLocked() {
	perHost := make(map[netip.Addr]int)
	for c := range t.all {
		if !c.auth.passed && !c.entry.displaced {
			perHost[c.peer.host]++
		}
	}
	var oldest *conn
	for c := range t.all {
		if c.auth.passed || c.entry.displaced {
			continue
		}
		if oldest == nil || perHost[c.peer.host] > perHost[oldest.peer.host] ||
			perHost[c.peer.host] == perHost[oldest.peer.host] && c.entry.number < oldest.entry.number {
			oldest = c
		}
	}
	oldest.entry.displaced = true // there is one, or the limit would not be reached
	oldest.cut(errDisplaced)
}

// enterUser counts a connection of a user; false if the user has too many.
func (t *connTable) enterUser(c *conn, user string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users[user] >= t.limits.ConnectionsPerUser {
		return false
	}
	t.users[user]++
	c.entry.user, c.entry.counted = user, true
	return true
}

// pass makes c an authenticated connection, which find returns for its SessionId.
func (t *connTable) pass(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.auth.passed = true
	c.auth.since = time.Now()
	if !c.entry.displaced {
		t.count.unauthenticated.Add(-1)
	}
	t.byID[c.auth.sessionID] = c
}

// find returns the connection of a user with a SessionId; nil if there is none.
func (t *connTable) find(id [8]byte, user string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byID[id]; c != nil && c.auth.session.User() == user {
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
	t.count.connections.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !c.auth.passed && !c.entry.displaced {
		t.count.unauthenticated.Add(-1)
	}
	if c.entry.counted {
		if t.users[c.entry.user]--; t.users[c.entry.user] == 0 {
			delete(t.users, c.entry.user)
		}
	}
	delete(t.all, c)
	delete(t.byID, c.auth.sessionID)
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

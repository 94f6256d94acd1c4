package server

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

// connTable is the table of an engine's connections: it enforces the limits on their number,
// for all, for those that have not passed AUTH, and for each user. Safe for concurrent use.
type connTable struct {
	limits *Limits
	count  *counters

	mu      sync.Mutex
	all     map[*conn]struct{}
	byID    map[[8]byte]*conn // authenticated ones, by SessionId
	users   map[string]int    // number of each user's
	arrived uint64            // connections so far
	stopped bool              // takes no new ones
	empty   chan struct{}     // closed when all is empty; nil if none waits
}

// place is the entry of a connection in the table. connTable.mu guards it.
type place struct {
	number    uint64 // in the order of arrival
	user      string // lower case
	counted   bool   // among those of user
	displaced bool   // another took its place before AUTH
}

// init makes t ready for use.
func (t *connTable) init(limits *Limits, count *counters) {
	t.limits, t.count = limits, count
	t.all, t.byID, t.users = make(map[*conn]struct{}), make(map[[8]byte]*conn), make(map[string]int)
}

// enter adds a connection and has start run; false if there are too many. If only those are
// too many that have not passed AUTH, the new one takes the place of one of them, so that
// unauthenticated connections do not keep authenticated ones out.
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
	c.place.number = t.arrived
	t.all[c] = struct{}{}
	start()
	return true
}

// displaceLocked cuts a connection that has not passed AUTH and leaves its place in the
// count to another: the oldest of the host with most of them, so that a host which floods
// the server displaces its own.
func (t *connTable) displaceLocked() {
	perHost := make(map[netip.Addr]int)
	for c := range t.all {
		if !c.auth.passed && !c.place.displaced {
			perHost[c.peer.host]++
		}
	}
	var oldest *conn
	for c := range t.all {
		if c.auth.passed || c.place.displaced {
			continue
		}
		if oldest == nil || perHost[c.peer.host] > perHost[oldest.peer.host] ||
			perHost[c.peer.host] == perHost[oldest.peer.host] && c.place.number < oldest.place.number {
			oldest = c
		}
	}
	oldest.place.displaced = true // there is one, or the limit would not be reached
	oldest.cut(errDisplaced)
}

// enterUser counts a connection among those of its user; false if these are too many.
func (t *connTable) enterUser(c *conn, user string) bool {
	user = strings.ToLower(user)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users[user] >= t.limits.ConnectionsPerUser {
		return false
	}
	t.users[user]++
	c.place.user, c.place.counted = user, true
	return true
}

// pass makes c an authenticated connection, which can be found by its SessionId.
func (t *connTable) pass(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.auth.passed = true
	c.auth.since = time.Now()
	if !c.place.displaced {
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

// leave removes a connection that has given everything back.
func (t *connTable) leave(c *conn) {
	t.count.connections.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !c.auth.passed && !c.place.displaced {
		t.count.unauthenticated.Add(-1)
	}
	if c.place.counted {
		if t.users[c.place.user]--; t.users[c.place.user] == 0 {
			delete(t.users, c.place.user)
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

// drain lets all connections finish their requests and returns a channel that is closed once
// they have ended.
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

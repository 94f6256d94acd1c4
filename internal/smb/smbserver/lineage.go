package smbserver

import (
	"time"

	"lwio/internal/ratelimit"
	"lwio/vfs"
)

// Lineage is a chain of sessions of one client, in which each names its predecessor. It owns the state
// that outlives a connection: the opens of its sessions in vfs, and the keys and connections of LWIO. Without a session
// it is suspended, and ends after a time. It is safe for concurrent use.
//
// Source: [MS-SMB2 3.3.5.5.3], [OP-42]
type Lineage struct {
	table   *lineages
	id      uint64   // of the first session
	user    string   // canonical
	client  [16]byte // the GUID of the client
	limiter *ratelimit.Limiter
	done    chan struct{}

	// table.mu guards the rest.
	session  *Session              // nil while the lineage is suspended
	names    []uint64              // session ids: the last that the client knows, and the latest
	opens    map[*durable]struct{} // all that are durable
	lasting  bool                  // has had a durable open
	retained bool                  // has RDMA connections
	evidence evidence              // of the last session, while the lineage is suspended
	leaving  <-chan struct{}       // Session.gone of the last session, while the lineage is suspended
	timer    *time.Timer           // runs while the lineage is suspended
	over     bool
	left     bool // by LOGOFF
	restored bool // of an earlier process; no session names it
}

// evidence is the evidence that a client has given in its last logon.
type evidence struct {
	domain string
	proof  proof
	until  time.Time // zero for no limit
}

// ID returns the id of the first session. It is no secret.
func (l *Lineage) ID() uint64 { return l.id }

// User returns the canonical name of the user.
func (l *Lineage) User() string { return l.user }

// Limiter bounds the requests and bytes of the user; nil is no bound.
func (l *Lineage) Limiter() *ratelimit.Limiter { return l.limiter }

// Done returns a channel that is closed when the lineage ends: by LOGOFF, by the end of its time without
// a session, by the removal of its user, or with the server. Its opens are closed after that.
func (l *Lineage) Done() <-chan struct{} { return l.done }

// LoggedOff reports whether the client ended the lineage by LOGOFF. The result is final once Done is
// closed.
//
// Source: [MS-SMB2 3.3.5.6]
func (l *Lineage) LoggedOff() bool {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.left
}

// Retain keeps the lineage for a time after the loss of a connection, even without orphans, if its
// client has used durable opens.
func (l *Lineage) Retain() {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.retained = true
}

// end ends the lineage, and closes its opens.
func (l *Lineage) end() {
	t := l.table
	t.mu.Lock()
	t.endLocked(l, false)
	t.mu.Unlock()
	t.files.CloseOwner(l)
}

// forsake ends the lineage because a session of another client replaces its last one. If it has orphans that any
// client of the user may reclaim, or that make way for other opens, it closes its persistent handles only, and
// goes on.
//
// Source: [MS-SMB2 3.3.5.5.3]
func (l *Lineage) forsake() {
	t := l.table
	var gone []*vfs.Open
	t.mu.Lock()
	if l.session != nil { // its client is there again
		t.mu.Unlock()
		return
	}
	rest := 0
	for d := range l.opens {
		if d.persistent {
			gone = append(gone, d.file)
		} else if d.orphaned() {
			rest++
		}
	}
	if rest > 0 && !l.over {
		t.mu.Unlock()
		t.files.CloseAll(gone...)
		return
	}
	t.endLocked(l, false)
	t.mu.Unlock()
	t.files.CloseOwner(l)
}

// endAfter is end, unless a later session than s uses or has used the lineage.
func (l *Lineage) endAfter(s *Session) {
	t := l.table
	t.mu.Lock()
	last := l.names[len(l.names)-1] == s.id && !l.over
	t.mu.Unlock()
	if last {
		l.end()
	}
}

// name makes id, of the latest session, a name of the lineage, beside that of the last session which the
// client knows. Precondition: table.mu is held.
func (l *Lineage) nameLocked(id uint64) {
	if len(l.names) > 1 {
		l.unnameLocked(1)
	}
	l.names = append(l.names, id)
	l.table.byName[id] = l
}

// unnameLocked removes the name at an index. Precondition: table.mu is held.
func (l *Lineage) unnameLocked(i int) {
	delete(l.table.byName, l.names[i])
	l.names = append(l.names[:i], l.names[i+1:]...)
}

// known says that the client knows the session s, and so does not name an earlier one any more.
func (l *Lineage) known(s *Session) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if len(l.names) > 1 && l.names[1] == s.id && !l.over {
		l.unnameLocked(0)
	}
}

// wakeLocked ends the time of a suspended lineage. Precondition: table.mu is held.
func (l *Lineage) wakeLocked() {
	if l.timer == nil {
		return
	}
	l.timer.Stop()
	l.timer = nil
	l.table.forgetSuspended(l)
}

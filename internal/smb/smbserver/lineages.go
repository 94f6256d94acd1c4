package smbserver

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/account"
	"lwio/vfs"
)

// lineages is the table of the lineages and of the durable opens of all clients (durables.go). One mutex
// guards their states; it is not held while files are closed. Safe for concurrent use.
type lineages struct {
	most    time.Duration // of an orphan; negative for no durable opens
	renewal time.Duration // after the end of a ticket
	files   *vfs.FS
	log     *slog.Logger
	memory  *account.Sum // of suspended lineages
	orphans *account.Sum
	count   lineageCounts
	ending  sync.WaitGroup // timers that close something
	// surrenders closes orphans that have lost their leases.
	surrenders surrenders
	kept       keptFiles
	own        ownChanges
	restored   int // opens of an earlier process; fixed before the first connection
	stale      staleOpens

	mu      sync.Mutex
	stopped bool // lineages end with their sessions
	all     map[*Lineage]struct{}
	byName  map[uint64]*Lineage // by session ids
	opens   map[uint64]*durable // by persistent id
	byGUID  map[durableKey]*durable
	byFile  sameFile

	instances map[instance]map[*durable]struct{} // without empty ones
}

// lineageCounts are the counters of lineages and orphans.
type lineageCounts struct {
	suspended atomic.Int64 // lineages without a session now

	// Since the start of the server.
	resumed   atomic.Uint64 // sessions that continued a lineage
	reclaimed atomic.Uint64 // orphans that their client has taken over
	expired   atomic.Uint64 // orphans whose time ended
	refused   atomic.Uint64 // durable opens that were closed because there were too many orphans
	// surrendered are the orphans that were closed for an open or a change of another client.
	surrendered atomic.Uint64
}

const (
	// defaultOrphanTime is the time of an orphan whose client asked for none, and the time of a
	// suspended lineage without orphans.
	defaultOrphanTime = time.Minute
	// lineageMemory is the memory of a suspended lineage, in bytes.
	lineageMemory = 4 << 10
)

func newLineages(cfg *Config, memory *account.Sum) *lineages {
	t := &lineages{
		most: cfg.Durable.Timeout, renewal: cfg.RenewalTime, files: cfg.FS, log: cfg.Logger, memory: memory,
		orphans: account.NewSum(int64(cfg.Durable.MaxOrphans), 0),
		all:     make(map[*Lineage]struct{}), byName: make(map[uint64]*Lineage),
		opens: make(map[uint64]*durable), byGUID: make(map[durableKey]*durable),
		byFile: make(sameFile), instances: make(map[instance]map[*durable]struct{}),
	}
	t.kept.state, t.kept.log, t.kept.of = cfg.Durable.State, cfg.Logger, t.ofFile
	t.stale.state, t.stale.log, t.stale.byID = cfg.Durable.State, cfg.Logger, make(map[uint64]staleOpen)
	if t.kept.state != nil {
		cfg.FS.OnThroughFailure(t.kept.throughFails)
		t.own.bound, t.own.log, t.own.wanted = t.kept.state.TimeBound(), cfg.Logger, t.anyDurable
		cfg.FS.OnChange(t.own.bound.Cover)
	}
	return t
}

// enabled reports whether the server grants durable opens.
func (t *lineages) enabled() bool { return t.most >= 0 }

// begin makes a lineage of a session of a client with that GUID.
func (t *lineages) begin(s *Session, client [16]byte) *Lineage {
	l := &Lineage{
		table: t, id: s.id, user: s.user, client: client, limiter: s.limiter, done: make(chan struct{}), session: s,
		opens: make(map[*durable]struct{}),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[l] = struct{}{}
	l.nameLocked(s.id)
	return l
}

// find returns the lineage of a user that has a session with that id; nil if there is none. current is
// its session, nil if it is suspended. continued reports whether a session of a client with that GUID
// continues the lineage, unless its end leaves nothing to wait for; otherwise it replaces the lineage.
func (t *lineages) find(id uint64, user string, client [16]byte) (l *Lineage, current *Session, continued bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l = t.byName[id]; l == nil || l.user != user {
		return nil, nil, false
	}
	return l, l.session, l.client == client && t.enabled()
}

// left returns a channel that is closed when the last session of a suspended lineage has closed its
// other opens.
func (t *lineages) left(l *Lineage) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.leaving
}

// attach gives a suspended lineage to a session. It reports false if the lineage has ended or has a
// session.
func (t *lineages) attach(l *Lineage, s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.over || l.session != nil {
		return false
	}
	l.wakeLocked()
	l.session = s
	l.nameLocked(s.id)
	t.count.resumed.Add(1)
	return true
}

// suspend ends the use of a lineage by a session whose handles are opens. Its durable opens become
// orphans, the newest first, as long as the user may have more of them. The lineage ends if nothing is
// left to wait for. The caller closes the opens that suspend returns, and those of an ended lineage.
//
// Source: [MS-SMB2 3.3.7.1]
func (t *lineages) suspend(s *Session, opens []*open) (gone []*open, ended bool) {
	l := s.lineage
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.over {
		return opens, true
	}
	l.session, l.evidence, l.leaving = nil, s.evidence(), s.gone
	slices.SortFunc(opens, func(a, b *open) int { return cmp.Compare(b.persistent, a.persistent) })
	for _, o := range opens {
		if o.durable == nil || t.stopped || !t.orphanLocked(o.durable) {
			gone = append(gone, o)
		}
	}
	wait := t.waitLocked(l)
	if wait <= 0 || t.stopped || !t.memory.Take(l.user, lineageMemory, account.Last) {
		t.endLocked(l, false)
		return gone, true
	}
	t.count.suspended.Add(1)
	t.lapseLocked(l, wait)
	return gone, false
}

// waitLocked returns the time for which a lineage without a session lasts: as long as its orphans, or a
// time of its own for its RDMA connections. Precondition: mu is held.
func (t *lineages) waitLocked(l *Lineage) (wait time.Duration) {
	for d := range l.opens {
		if d.orphaned() {
			wait = max(wait, time.Until(d.until))
		}
	}
	if l.lasting && l.retained {
		wait = max(wait, min(defaultOrphanTime, t.most))
	}
	if until := l.evidence.until; !until.IsZero() {
		wait = min(wait, time.Until(until)+t.renewal)
	}
	return wait
}

// lapseLocked makes a suspended lineage end after a time. Precondition: mu is held.
func (t *lineages) lapseLocked(l *Lineage, wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		t.mu.Lock()
		if l.timer != timer {
			t.mu.Unlock()
			return
		}
		t.ending.Add(1)
		for d := range l.opens {
			if d.orphaned() {
				t.count.expired.Add(1)
			}
		}
		t.endLocked(l, false)
		t.mu.Unlock()
		defer t.ending.Done()
		t.audit("suspended session ended", l.user)
		t.files.CloseOwner(l)
	})
	l.timer = timer
}

// forgetSuspended returns the memory of a suspended lineage.
func (t *lineages) forgetSuspended(l *Lineage) {
	t.memory.Give(l.user, lineageMemory, account.Last)
	t.count.suspended.Add(-1)
}

// end ends the lineage of a session whose handles are opens. The caller closes the opens that end
// returns, and those of the lineage.
func (t *lineages) end(s *Session, opens []*open) (gone []*open, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(s.lineage, s.loggedOff.Load())
	return opens, true
}

// endLocked ends a lineage. The caller closes its opens. Precondition: mu is held.
func (t *lineages) endLocked(l *Lineage, left bool) {
	if l.over {
		return
	}
	l.wakeLocked()
	if t.stopped && !left {
		for d := range l.opens {
			t.park(d)
		}
	}
	l.over, l.left, l.session = true, left, nil
	for _, id := range l.names {
		delete(t.byName, id)
	}
	delete(t.all, l)
	close(l.done)
}

// suspended returns the lineages without a session, and the evidence of their last sessions.
func (t *lineages) suspended() map[*Lineage]evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[*Lineage]evidence)
	for l := range t.all {
		if l.session == nil {
			all[l] = l.evidence
		}
	}
	return all
}

// audit logs an event without a connection.
func (t *lineages) audit(event, user string, attrs ...slog.Attr) {
	t.log.LogAttrs(context.Background(), AuditLevel, event, append(attrs, slog.String("user", user))...)
}

// addTo adds the numbers of lineages and orphans to the counters of the server.
func (t *lineages) addTo(st *Stats) {
	st.Suspended, st.Orphans = int(t.count.suspended.Load()), int(t.orphans.Held())
	st.Resumed, st.Reclaimed = t.count.resumed.Load(), t.count.reclaimed.Load()
	st.Restored, st.NotRestored = t.restored, t.stale.found
	st.StateFailing = t.kept.failing.Load()
	st.Expired, st.OrphansRefused, st.Surrendered = t.count.expired.Load(), t.count.refused.Load(), t.count.surrendered.Load()
}

// stop makes lineages end with their sessions.
func (t *lineages) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.stale.stop()
}

// close ends all lineages, and waits for the ends in progress. Precondition: stop was called, and no
// session is left.
func (t *lineages) close() {
	var all sync.WaitGroup
	for l := range t.suspended() {
		all.Go(l.end)
	}
	all.Wait()
	t.own.stop()
	t.surrenders.stop()
	t.ending.Wait()
}

package vfs

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
)

// leaseTable holds the leases of all files. mu guards all leases. Safe for concurrent use.
//
// Operations of an open that conflict with the lease of another one call contend before they act. While an
// open has LeaseWrite, no other open of the file has a right to its data, so only opens and changes of
// names wait for an acknowledgement; changes of data notify and go on.
type leaseTable struct {
	patience time.Duration // of a break

	breaks, revoked atomic.Uint64 // since the start
	directories     atomic.Int64  // leases of directories

	mu    sync.Mutex
	byKey map[LeaseKey]*lease
	count int
}

// fileLeases are the leases of one file. leaseTable.mu guards list and changed.
type fileLeases struct {
	table *leaseTable
	id    NodeID
	dir   bool
	// now is a summary of the states. It is nil while none allows anything: then I/O takes no mutex.
	now     atomic.Pointer[leaseSummary]
	list    []*lease
	changed chan struct{} // made by a wait; closed at the next change of a lease
}

// leaseSummary is the present state of the leases of a file. It does not change.
type leaseSummary struct {
	// sole is the only lease with a state, if the changes of its own opens do not break it.
	sole *lease
}

// lease is the right of one client to cache data of a file. leaseTable.mu guards the fields below key.
//
// Source: [MS-SMB2 3.3.1.12], [MS-FSA 2.1.1.10]
type lease struct {
	file   *fileLeases
	oplock bool
	v2     bool
	key    LeaseKey // of no oplock

	holders map[*Open]func(LeaseBreak) LeaseReach
	state   LeaseState
	epoch   uint16
	// While breaking, the client is asked for the state asked, and needed is the state that operations need by now.
	breaking      bool
	asked, needed LeaseState
	since         time.Time // the break
	// abandoned are the orphans among the holders that last no longer than LeaseHandle. unreached says that the
	// present break has reached no client, and that the closes of these orphans end it.
	abandoned map[*Open]*abandonedOpen
	unreached bool
}

// openLease is the part that an open has in the leases of its file. It does not change while the open is
// in the table.
type openLease struct {
	file  *fileLeases
	lease *lease // nil without one
}

// leaseUse is a reason to break leases.
type leaseUse uint8

const (
	useChange    leaseUse = iota // of data, size or byte-range locks, or of the entries of a directory
	useName                      // rename or delete
	useShare                     // an open that the share modes forbid
	useOpen                      // an open with a right to the data
	useOverwrite                 // an open that empties the file
)

// keeps returns the state that the use allows others to have.
//
// Source: [MS-FSA 2.1.4.12]
func (u leaseUse) keeps() LeaseState {
	switch u {
	case useName, useShare:
		return LeaseRead | LeaseWrite
	case useOpen:
		return LeaseRead | LeaseHandle
	}
	return 0
}

// awaits returns the state whose break the use waits for.
func (u leaseUse) awaits() LeaseState {
	if u == useName || u == useShare {
		return LeaseHandle
	}
	return LeaseWrite
}

// opens reports whether the use is by a new open that the share modes allow.
func (u leaseUse) opens() bool { return u == useOpen || u == useOverwrite }

// leaseNotice is a break that the caller sends when it holds no mutex.
type leaseNotice struct {
	lease   *lease
	holders []func(LeaseBreak) LeaseReach
	what    LeaseBreak
	lost    []func() // of orphans, which are called first
}

type leaseNotices []leaseNotice

// send sends the breaks. The lease of a client that none reaches ends.
func (n leaseNotices) send() {
	for _, x := range n {
		callAll(x.lost)
		best := LeaseAway
		for _, f := range x.holders {
			if best = max(best, f(x.what)); best == LeaseReached {
				break
			}
		}
		if best == LeaseAway {
			x.lease.file.table.unreached(x.lease)
		}
	}
}

// contend begins the breaks that a use of a file needs. The caller sends the notices. If the use has to
// wait, contend returns the wait. own is the lease of the open that uses the file, or nil. again says that the use
// has waited before.
//
// Source: [MS-FSA 2.1.4.12], [MS-SMB2 3.3.5.9]
func (t *leaseTable) contend(f *fileLeases, own *lease, use leaseUse, again bool) (wait *LeaseWait, notices leaseNotices) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var first *lease // to wait for
	for _, l := range f.list {
		if l == own && !(use == useChange && l.levelII()) {
			continue
		}
		before := l.state
		keep := before & use.keeps()
		delay := before&use.awaits() != 0
		if keep == before {
			delay = l.breaking && use.opens()
		} else {
			if l.oplock {
				keep &= LeaseRead
			}
			notices = l.breakLocked(keep, notices)
			delay = delay || again && use.opens()
		}
		if delay && l.breaking && first == nil {
			first = l
		}
	}
	if len(notices) > 0 {
		f.updateLocked()
	}
	if first != nil {
		wait = first.waitLocked()
	}
	return wait, notices
}

// levelII reports whether the lease is an oplock of level II, which changes of its own open break too.
//
// Source: [MS-FSA 2.1.4.12]
func (l *lease) levelII() bool { return l.oplock && l.state == LeaseRead }

// breakLocked begins a break to a state, or extends the present one. Precondition: table.mu is held.
func (l *lease) breakLocked(to LeaseState, notices leaseNotices) leaseNotices {
	switch to &= l.state; {
	case l.breaking:
		l.needed &= to
		return notices
	case to == l.state:
		return notices
	}
	l.epoch++
	what := LeaseBreak{From: l.state, To: to, Ack: l.state != LeaseRead, V2: l.v2, Epoch: l.epoch}
	if what.Ack {
		l.breaking, l.unreached, l.asked, l.needed, l.since = true, false, to, to, time.Now()
	} else {
		l.state = to
	}
	return append(notices, l.noticeLocked(what))
}

// noticeLocked returns the notice of a break. Precondition: table.mu is held.
func (l *lease) noticeLocked(what LeaseBreak) leaseNotice {
	l.file.table.breaks.Add(1)
	n := leaseNotice{lease: l, what: what, lost: l.lostLocked()}
	for o, f := range l.holders {
		if l.abandoned[o] == nil {
			n.holders = append(n.holders, f)
		}
	}
	return n
}

// waitLocked returns the wait for the next change of the leases of the file. Precondition: table.mu is
// held.
func (l *lease) waitLocked() *LeaseWait {
	f := l.file
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return &LeaseWait{lease: l, changed: f.changed, until: l.since.Add(f.table.patience)}
}

// acknowledge ends the break of a lease, which may be nil.
//
// Source: [MS-SMB2 3.3.5.22.2]
func (t *leaseTable) acknowledge(l *lease, state LeaseState) (LeaseState, error) {
	if l == nil {
		return 0, ntstatus.ObjectNameNotFound
	}
	t.mu.Lock()
	switch {
	case !l.breaking:
		t.mu.Unlock()
		return 0, ntstatus.Unsuccessful
	case state&^l.asked != 0:
		t.mu.Unlock()
		return 0, ntstatus.RequestNotAccepted
	}
	l.state, l.breaking = state, false
	var notices leaseNotices
	if more := state &^ l.needed; more != 0 {
		notices = l.goOnLocked()
	}
	lost := l.lostLocked()
	l.file.updateLocked()
	t.mu.Unlock()
	callAll(lost)
	notices.send()
	return state, nil
}

// goOnLocked begins the next step of a break whose first step is acknowledged. A lease goes to LeaseRead
// first. The epoch stays. Precondition: table.mu is held.
func (l *lease) goOnLocked() leaseNotices {
	what := LeaseBreak{From: l.state, To: l.needed & l.state, V2: l.v2, Epoch: l.epoch}
	if l.state == LeaseRead {
		l.state = what.To
	} else {
		what.To |= l.state & LeaseRead
		what.Ack = true
		l.breaking, l.unreached, l.asked, l.since = true, false, what.To, time.Now()
	}
	return leaseNotices{l.noticeLocked(what)}
}

// expire ends a lease whose break is not acknowledged in time.
//
// Source: [MS-SMB2 3.3.6.5]
func (t *leaseTable) expire(l *lease) {
	t.mu.Lock()
	var lost []func()
	if l.breaking && time.Since(l.since) >= t.patience {
		lost = l.revokeLocked()
	}
	t.mu.Unlock()
	callAll(lost)
}

// revoke ends a lease that is being broken. It reports false for any other lease.
func (t *leaseTable) revoke(l *lease) bool {
	t.mu.Lock()
	breaking := l.breaking
	var lost []func()
	if breaking {
		lost = l.revokeLocked()
	}
	t.mu.Unlock()
	callAll(lost)
	return breaking
}

// revokeLocked ends the rights of a lease, and returns the functions of its orphans. Precondition: table.mu is
// held.
func (l *lease) revokeLocked() (lost []func()) {
	l.file.table.revoked.Add(1)
	l.state, l.breaking, l.unreached = 0, false, false
	l.file.updateLocked()
	return l.loseLocked()
}

// held returns the number of leases.
func (t *leaseTable) held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// find returns the lease of a key, or nil.
func (t *leaseTable) find(key LeaseKey) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// own returns the lease that a request for a file names: nil if it is a new one.
//
// Errors: INVALID_PARAMETER if the key belongs to another file. f is nil for a file without opens.
//
// Source: [MS-SMB2 3.3.5.9.8]
func (t *leaseTable) own(f *fileLeases, q *LeaseRequest) (*lease, error) {
	if q == nil || q.Oplock {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byKey[q.Key]
	if l != nil && l.file != f {
		return nil, because(ntstatus.InvalidParameter, "the key of a lease of another file")
	}
	return l, nil
}

// updateLocked updates now, and wakes the waits. Precondition: table.mu is held.
func (f *fileLeases) updateLocked() {
	var s *leaseSummary
	for _, l := range f.list {
		switch {
		case l.state == 0:
		case s == nil:
			if s = new(leaseSummary); !l.levelII() {
				s.sole = l
			}
		default:
			s.sole = nil
		}
	}
	f.now.Store(s)
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// change breaks the leases that a change of the file by the open breaks. It is called before the change, and
// again after it: a lease that was granted meanwhile may have the old data. Without leases of others it costs
// one atomic load.
func (c *openLease) change() {
	if s := c.file.now.Load(); s == nil || s.sole != nil && s.sole == c.lease {
		return
	}
	_, notices := c.file.table.contend(c.file, c.lease, useChange, false)
	notices.send()
}

// rename begins the breaks of leases of others that a change of the name of the file needs. A wait is an
// error. The caller sends the notices.
func (c *openLease) rename() (leaseNotices, error) { return c.file.rename(c.lease) }

// rename is openLease.rename of an open with the lease own, or of another file.
func (f *fileLeases) rename(own *lease) (leaseNotices, error) {
	if f.now.Load() == nil {
		return nil, nil
	}
	wait, notices := f.table.contend(f, own, useName, false)
	if wait != nil {
		return notices, wait
	}
	return notices, nil
}

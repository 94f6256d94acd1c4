package smbserver

import (
	"log/slog"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// granted returns the time of an orphan for a client that asks for a time, zero for the default.
func (t *lineages) granted(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = defaultOrphanTime
	}
	return min(asked, t.most)
}

// reserve enters a durable open that a CREATE is about to make. If the client has one with the same GUID
// already, reserve returns that.
//
// Source: [MS-SMB2 3.3.5.9.10]
func (t *lineages) reserve(d *durable) (same *durable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if same = t.byGUID[d.key]; same == nil {
		t.byGUID[d.key] = d
	}
	return same
}

// withdraw removes a reserved open that was not granted.
func (t *lineages) withdraw(d *durable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.file == nil {
		t.removeLocked(d)
	}
}

// made reports whether the CREATE of a reserved open is complete.
func (t *lineages) made(d *durable) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return d.file != nil
}

// grant completes a reserved open: it is the open o of a session. The close of the file removes it. If a
// persistent handle cannot be recorded in the state, it is not made durable, and grant reports false.
func (t *lineages) grant(d *durable, s *Session, o *open, action vfs.Action) bool {
	t.mu.Lock()
	d.id, d.file, d.action, d.lineage, d.session, d.handle = o.persistent, o.file, action, s.lineage, s, o
	s.lineage.opens[d] = struct{}{}
	t.opens[d.id] = d
	t.byFile.add(d)
	t.addInstanceLocked(d)
	t.mu.Unlock()
	o.durable, d.lease = d, o.lease
	if !d.persistent {
		o.file.OnRevoke(func() { t.closed(d) })
		return true
	}
	t.own.begin()
	if err := t.kept.add(d, s); err != nil {
		t.remove(d)
		o.durable = nil
		return false
	}
	o.file.SetRecorder(recorder{d, &t.kept})
	t.mu.Lock()
	s.lineage.lasting = true
	t.mu.Unlock()
	o.file.OnRevoke(func() { t.closed(d) })
	return true
}

// closed removes a durable open whose close begins, from the state first.
func (t *lineages) closed(d *durable) {
	if late := t.kept.remove(d); late {
		t.ending.Go(func() { t.kept.drop(d) })
	}
	t.remove(d)
}

// anyDurable reports whether there are durable opens.
func (t *lineages) anyDurable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.opens) > 0
}

// ofFile returns the durable opens of the file of an open.
func (t *lineages) ofFile(f *vfs.Open) []*durable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byFile.of(f.Node())
}

// park leaves a durable open to the next process: its records stay, and its close deletes nothing.
// Without a state it does nothing.
func (t *lineages) park(d *durable) {
	if d.kept.leave() {
		t.files.Detach(d.file)
	}
}

// remove removes a durable open.
func (t *lineages) remove(d *durable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(d)
}

// removeLocked is remove. Precondition: mu is held.
func (t *lineages) removeLocked(d *durable) {
	if d.over {
		return
	}
	if d.orphaned() {
		t.adoptLocked(d)
	}
	d.over, d.session, d.handle = true, nil, nil
	if t.byGUID[d.key] == d {
		delete(t.byGUID, d.key)
	}
	if d.lineage != nil {
		delete(d.lineage.opens, d)
		delete(t.opens, d.id)
		t.byFile.remove(d)
		t.removeInstanceLocked(d)
	}
}

// leaveLocked tells the file layer that the client of a durable open is away. It reports false if the lease
// of the open keeps it no longer. Precondition: mu is held.
func (t *lineages) leaveLocked(d *durable) bool {
	if !d.persistent {
		if !d.lasting || !d.file.Ownership().Abandon(func() { t.surrenders.add(func() { t.surrender(d) }) }) {
			return false
		}
		d.lease.moved(nil, nil, false)
		return true
	}
	d.lease.moved(nil, nil, false)
	_ = d.file.RevokeLease() // a client that is away acknowledges no break
	d.file.Ownership().SetOrphan(true)
	return true
}

// surrender closes an orphan that has lost its lease.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
func (t *lineages) surrender(d *durable) {
	t.mu.Lock()
	if d.over || d.lineage.over { // it is closed already, or the end of the lineage closes it
		t.mu.Unlock()
		return
	}
	t.count.surrendered.Add(1)
	t.removeLocked(d)
	t.mu.Unlock()
	t.audit("orphaned open closed for another", d.key.user, slog.String("share", d.file.Share().Name), slog.String("path", d.file.Path()))
	_ = d.file.Close() // vfs logs a failed delete
}

// orphanLocked makes a durable open an orphan. It reports false if the open is closed, if there are
// too many orphans, or if the open has lost its lease. Precondition: mu is held.
func (t *lineages) orphanLocked(d *durable) bool {
	switch {
	case d.over || d.lineage.over:
		return false
	case !t.orphans.Take(d.lineage.user, 1, account.Last):
		t.count.refused.Add(1)
		return false
	}
	if !t.leaveLocked(d) {
		t.orphans.Give(d.lineage.user, 1, account.Last)
		return false
	}
	if d.handle != nil {
		d.position = d.handle.position.Load()
	}
	d.session, d.handle, d.until = nil, nil, time.Now().Add(d.timeout)
	var timer *time.Timer
	timer = time.AfterFunc(d.timeout, func() {
		t.mu.Lock()
		if d.expiry != timer || d.lineage.over { // the end of the lineage closes it
			t.mu.Unlock()
			return
		}
		t.ending.Add(1)
		t.removeLocked(d)
		t.mu.Unlock()
		defer t.ending.Done()
		t.count.expired.Add(1)
		t.audit("orphaned open closed", d.key.user, slog.String("share", d.file.Share().Name), slog.String("path", d.file.Path()))
		_ = d.file.Close() // vfs logs a failed delete
	})
	d.expiry = timer
	return true
}

// adoptLocked ends the time of an orphan, and its count. Precondition: mu is held.
func (t *lineages) adoptLocked(d *durable) {
	d.expiry.Stop()
	d.expiry = nil
	t.orphans.Give(d.lineage.user, 1, account.Last)
}

// byFileID returns the durable open with a persistent id, nil if there is none.
func (t *lineages) byFileID(id uint64) *durable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opens[id]
}

// handleOf returns the open under which a session has a durable open, nil if it has not.
func (t *lineages) handleOf(d *durable, s *Session) *open {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.session != s {
		return nil
	}
	return d.handle
}

// sessionOf returns the session that has a durable open, or nil.
func (t *lineages) sessionOf(d *durable) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return d.session
}

// claim gives an orphan to a session, as the open o, when the requests of its last session that change
// it have ended. The caller adds o to the handles of the session, or calls release.
//
// Errors: OBJECT_NAME_NOT_FOUND for an open that is closed or has lost its lease, or that a session has; FILE_NOT_AVAILABLE if
// the requests do not end in time.
//
// Source: [MS-SMB2 3.3.5.9.12], [OP-112]
func (t *lineages) claim(d *durable, s *Session, o *open) ntstatus.Status {
	t.mu.Lock()
	if !d.orphaned() || d.lineage.over || s.lineage.over {
		t.mu.Unlock()
		return ntstatus.ObjectNameNotFound
	}
	if !d.file.Ownership().Return() { // surrender closes it
		t.mu.Unlock()
		return ntstatus.ObjectNameNotFound
	}
	t.adoptLocked(d)
	d.session, d.handle = s, o
	o.position.Store(d.position)
	o.durable, o.file, o.persistent = d, d.file, d.id
	moved := d.lineage != s.lineage
	if moved {
		delete(d.lineage.opens, d)
		s.lineage.opens[d] = struct{}{}
		if t.abandonedLocked(d.lineage) {
			t.endLocked(d.lineage, false)
		}
		d.lineage, s.lineage.lasting = s.lineage, true
	}
	t.mu.Unlock()
	if moved {
		d.file.Ownership().Transfer(s.lineage)
	}
	if !d.requests.wait(drainTime) {
		t.release(d)
		return ntstatus.FileNotAvailable
	}
	return ntstatus.Success
}

// release undoes a claim. If the open cannot be an orphan again, it is closed.
func (t *lineages) release(d *durable) {
	t.mu.Lock()
	kept := d.over || !t.stopped && t.orphanLocked(d)
	stopped := t.stopped
	t.mu.Unlock()
	if stopped {
		t.park(d)
	}
	if !kept {
		_ = d.file.Close() // vfs logs a failed delete
	}
}

package smbserver

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/statefile"
	"lwio/vfs"
)

// savedOpen is one durable open of the state.
type savedOpen struct {
	id        uint64 // the persistent part of the FileId
	record    openRecord
	whole     bool            // the record is there
	stale     ntstatus.Status // an earlier process could not restore it, for this reason; else Success
	begun     time.Time       // the creation of the file, if the process died during it
	locks     map[uint64]vfs.Lock
	sequences [smbwire.LockBuckets]uint8
}

// readState reads the durable opens of an earlier process, in the order of their ids.
func readState(log *statefile.Log) ([]*savedOpen, error) {
	saved := make(map[uint64]*savedOpen)
	err := log.Each(func(k statefile.Key, value []byte) (err error) {
		s := saved[k.Group]
		if s == nil {
			s = &savedOpen{id: k.Group, locks: make(map[uint64]vfs.Lock)}
			saved[k.Group] = s
		}
		switch {
		case k.Item == openItem:
			s.record, err = decodeOpenRecord(value)
			s.whole = true
		case k.Item == creatingItem && len(value) == 8:
			s.begun = time.Unix(0, int64(binary.LittleEndian.Uint64(value)))
		case k.Item == staleItem && len(value) == 4:
			s.stale = ntstatus.Status(binary.LittleEndian.Uint32(value))
		case k.Item <= smbwire.LockBuckets && len(value) == 1 && value[0] < 16:
			s.sequences[k.Item-1] = value[0] + 1
		case k.Item > firstLockItem:
			s.locks[k.Item], err = decodeLock(value)
		default:
			err = errRecord
		}
		if err != nil {
			return fmt.Errorf("state: record %d of the open %d: %w", k.Item, k.Group, err)
		}
		return nil
	})
	list := slices.SortedFunc(maps.Values(saved), func(a, b *savedOpen) int { return cmp.Compare(a.id, b.id) })
	return list, err
}

// Reasons for which an open of the state is not restored.
var (
	errUserGone   = ntstatus.AccessDenied.Because(errors.New("the user was removed"))
	errNotGranted = ntstatus.ObjectNameNotFound.Because(errors.New("the server grants no durable opens"))
	errNoRoom     = ntstatus.InsufficientResources.Because(errors.New("too many orphans"))
)

// restore makes the durable opens of an earlier process orphans again, which their clients take over as
// after the loss of a connection. A client that asks for an open that cannot be restored gets the reason as a status.
func (s *Server) restore() error {
	saved, err := readState(s.cfg.Durable.State)
	if err != nil {
		return err
	}
	s.openIDs.Store(firstOpenID(saved))
	unchanged, err := s.cfg.Durable.State.TimeBound().Earlier()
	if err != nil && len(saved) > 0 {
		s.cfg.Logger.Warn("smb: changes of files by other programs are not noticed", "err", err)
	}
	r := restoring{srv: s, unchanged: unchanged, lineages: make(map[durableKey]*Lineage), closing: make(map[uint64]*vfs.Open)}
	for _, o := range saved {
		if err := r.open(o); err != nil {
			s.cfg.Logger.Warn("smb: open not restored", "user", o.record.user, "share", o.record.file.Share, "path", o.record.file.Path, "err", err)
			r.lose(o, err)
		}
	}
	r.finish()
	if s.lineages.stale.found > 0 {
		s.lineages.stale.lapse(r.longest)
	}
	if r.restored > 0 {
		s.lineages.own.begin()
	}
	s.lineages.restored = r.restored
	if len(saved) > 0 || s.cfg.Durable.State.Rebooted() {
		s.cfg.Logger.Info("smb: state restored", "opens", r.restored, "locks", r.locks, "closed", len(r.closing), "lost", len(saved)-r.restored-len(r.closing), "rebooted", s.cfg.Durable.State.Rebooted())
	}
	return nil
}

// firstOpenID returns the number before the first FileId of this process. FileIds of earlier processes are
// not used again: the upper half is a random number that no open of the state has.
func firstOpenID(saved []*savedOpen) uint64 {
	for {
		var b [4]byte
		rand.Read(b[:]) // never fails
		id := uint64(binary.BigEndian.Uint32(b[:])>>1) << 32
		if !slices.ContainsFunc(saved, func(o *savedOpen) bool { return o.id>>32 == id>>32 }) {
			return id
		}
	}
}

// restoring is the restoration of the opens of an earlier process.
type restoring struct {
	srv             *Server
	lineages        map[durableKey]*Lineage // by client and user
	deleting        []*vfs.Open
	closing         map[uint64]*vfs.Open // opens whose close had begun, by id
	restored, locks int
	unchanged       time.Time     // vfs.RestoreRequest.Unchanged
	longest         time.Duration // of the times of the opens that are not restored
}

// lose notes that an open is not restored, for its client.
func (r *restoring) lose(o *savedOpen, why error) {
	t := r.srv.lineages
	if !o.begun.IsZero() || o.record.closed { // the client does not know of it, or has closed it, and may have deleted the file by that
		t.stale.drop(o.id)
		return
	}
	r.longest = max(r.longest, min(o.record.timeout, t.most))
	t.stale.add(o, ntstatus.Of(why), o.whole && t.enabled() && !errors.Is(why, errUserGone))
}

// open restores one open.
func (r *restoring) open(o *savedOpen) error {
	t, rec := r.srv.lineages, &o.record
	switch {
	case !o.whole:
		return errRecord
	case !t.enabled():
		return errNotGranted
	}
	l, err := r.lineage(rec)
	switch {
	case err != nil:
		return err
	case o.stale != ntstatus.Success:
		return o.stale
	}
	file, err := t.files.Restore(vfs.RestoreRequest{
		Record: rec.file, Other: rec.other, Begun: o.begun, Owner: l, User: rec.user, Locks: slices.Collect(maps.Values(o.locks)),
		Unchanged: r.unchanged,
	})
	if err != nil {
		return err
	}
	if rec.closed {
		r.closing[o.id] = file
		if rec.deleting {
			r.deleting = append(r.deleting, file)
		}
		return nil
	}
	d := &durable{key: rec.durableKey(), app: instance{rec.app, rec.user}, timeout: min(rec.timeout, t.most), id: o.id, file: file, action: rec.action, persistent: true, lasting: true}
	d.locks.last = o.sequences
	if err := r.keep(d, o); err != nil {
		_ = file.Close() // vfs logs a failed delete
		return err
	}
	if rec.unsynced {
		d.syncFailed.restore(ntstatus.UnexpectedIOError)
	}
	if !t.adopt(l, d) {
		_ = file.Close() // vfs logs a failed delete
		return errNoRoom
	}
	if rec.deleting {
		r.deleting = append(r.deleting, file)
	}
	r.restored++
	r.locks += len(o.locks)
	return nil
}

// keep takes over the records of an open. A file that was being made gets its identity.
func (r *restoring) keep(d *durable, o *savedOpen) (err error) {
	log := r.srv.cfg.Durable.State
	if o.begun.IsZero() {
		d.kept.resume(log, o.id, o.record, o.locks, o.sequences)
		return nil
	}
	if o.record.file, err = d.file.Record(); err != nil {
		return err
	}
	d.kept.announced = true
	return d.kept.begin(log, o.id, o.record, func(*openRecord) {})
}

// durableKey returns the key of the open of a record.
func (r *openRecord) durableKey() durableKey {
	return durableKey{client: r.client, guid: r.guid, user: r.user}
}

// lineage returns the suspended lineage of a client.
func (r *restoring) lineage(rec *openRecord) (*Lineage, error) {
	key := durableKey{client: rec.client, user: rec.user}
	if l := r.lineages[key]; l != nil {
		return l, nil
	}
	srv := r.srv
	var name string
	var hash [16]byte
	ok := false
	if srv.cfg.Lookup != nil {
		name, hash, ok = srv.cfg.Lookup(rec.domain, rec.user)
	}
	if !ok || name != rec.user {
		return nil, errUserGone
	}
	l := &Lineage{
		table: srv.lineages, user: rec.user, client: rec.client, limiter: srv.limiterOf(rec.user),
		done: make(chan struct{}), opens: make(map[*durable]struct{}), lasting: true, restored: true,
		evidence: evidence{domain: rec.domain, proof: proof{ntHash: hash}},
	}
	r.lineages[key] = l
	return l, nil
}

// finish makes pending deletes pending again, closes the opens whose close had begun, and begins the times of the
// lineages.
func (r *restoring) finish() {
	for _, file := range r.deleting {
		if err := r.srv.cfg.FS.RestoreDelete(file); err != nil {
			r.srv.cfg.Logger.Warn("smb: pending delete not restored", "share", file.Share().Name, "path", file.Path(), "err", err)
		}
	}
	for id, file := range r.closing {
		_ = file.Close() // vfs logs a failed delete
		if err := r.srv.cfg.Durable.State.Drop(id); err != nil {
			r.srv.cfg.Logger.Error("smb: state of a closed open", "open", id, "err", err)
		}
	}
	for _, l := range r.lineages {
		r.srv.lineages.beginSuspended(l)
	}
}

// abandonedLocked reports whether a suspended lineage of an earlier process has no opens any more. Its
// client goes on with another lineage. Precondition: mu is held.
func (t *lineages) abandonedLocked(l *Lineage) bool {
	return l.restored && l.session == nil && len(l.opens) == 0
}

// adopt adds a restored open to a lineage, as an orphan. It reports false if there are too many orphans.
func (t *lineages) adopt(l *Lineage, d *durable) bool {
	t.mu.Lock()
	d.lineage = l
	if !t.orphanLocked(d) {
		t.mu.Unlock()
		return false
	}
	l.opens[d] = struct{}{}
	t.opens[d.id], t.byGUID[d.key] = d, d
	t.byFile.add(d)
	t.addInstanceLocked(d)
	t.mu.Unlock()
	d.file.SetRecorder(recorder{d, &t.kept})
	d.file.OnRevoke(func() { t.closed(d) })
	return true
}

// beginSuspended adds a lineage without a session, and begins its time.
func (t *lineages) beginSuspended(l *Lineage) {
	t.mu.Lock()
	wait := t.waitLocked(l)
	if wait > 0 && t.memory.Take(l.user, lineageMemory, account.Last) {
		t.all[l] = struct{}{}
		t.count.suspended.Add(1)
		t.lapseLocked(l, wait)
		t.mu.Unlock()
		return
	}
	t.endLocked(l, false)
	t.mu.Unlock()
	t.files.CloseOwner(l)
}

package smbserver

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"lwio/internal/statefile"
	"lwio/vfs"
)

// keptFiles writes the durable opens of a server into its state, for the next process, and keeps the
// records true: names, pending deletes and failed syncs of their files. Without a state it writes
// nothing. Safe for concurrent use.
type keptFiles struct {
	state *statefile.Log // nil if the opens end with the process
	log   *slog.Logger
	// of returns the durable opens of the file of an open.
	of func(*vfs.Open) []*durable

	failing atomic.Bool // the last durable open could not be recorded
	naming  sync.Map    // of *sync.Mutex by device: serialise the changes of names

	mu sync.Mutex
	// present are the changes in progress, by file. An open whose record is written meanwhile has them too.
	present map[vfs.NodeID]func(*openRecord)
}

// add writes a new durable open, before the client knows of it.
func (k *keptFiles) add(d *durable, s *Session) error {
	if k.state == nil {
		return nil
	}
	err := k.write(d, s)
	if err == nil {
		k.failing.Store(false)
	} else if !k.failing.Swap(true) {
		k.log.Error("smb: open files are not kept: the state cannot be written", "path", d.file.Path(), "err", err)
	}
	return err
}

func (k *keptFiles) write(d *durable, s *Session) error {
	file, err := d.file.Record()
	if err != nil {
		return err
	}
	return d.kept.begin(k.state, d.id, d.record(s, d.action, file), func(r *openRecord) { k.update(d.file, r) })
}

// update brings the record of an open up to date. Precondition: k.of returns the open, so a change that begins later
// comes to its record.
func (k *keptFiles) update(f *vfs.Open, r *openRecord) {
	k.mu.Lock()
	by := k.present[f.Node()]
	k.mu.Unlock()
	r.file.Path, r.deleting = f.Path(), f.Deleting() // after the look-up: a change that has ended is in them
	if by != nil {
		by(r)
	}
}

// record returns the record of an open of a session.
func (d *durable) record(s *Session, action vfs.Action, file vfs.Record) openRecord {
	return openRecord{
		client: d.key.client, guid: d.key.guid, app: d.app.id, user: d.key.user, domain: s.domain, timeout: d.timeout, action: action,
		file: file,
	}
}

// announce writes into the state that the file of a durable open is about to be made. If the process dies
// between the creation and the record of the open, the next one knows that the file belongs to the open. If
// it cannot be written, the record of the open cannot either, and grant reports that.
func (k *keptFiles) announce(d *durable, s *Session, id uint64, file vfs.Record) {
	if k.state != nil {
		_ = d.kept.announce(k.state, id, d.record(s, vfs.Created, file))
	}
}

// remove removes the records of a durable open whose close begins: the open keeps its locks up to the end of
// the close, and then no record says that it has them. The close of an open with the option DeleteOnClose makes
// the delete of the file pending for the other opens of the file. If the close may delete the file, late is
// true: drop removes the last record when the close is over.
func (k *keptFiles) remove(d *durable) (late bool) {
	if k.state == nil {
		return false
	}
	deletes := d.file.Options()&vfs.DeleteOnClose != 0
	if deletes && !d.kept.left() {
		k.pend(d.file)
	}
	late, err := d.kept.end(deletes)
	k.report(d, err)
	return late
}

// drop waits for the close of a durable open and removes its last record.
func (k *keptFiles) drop(d *durable) {
	_ = d.file.Close() // waits for the close in progress; vfs logs a failed delete
	k.report(d, k.state.Drop(d.id))
}

func (k *keptFiles) report(d *durable, err error) {
	if err != nil {
		k.log.Error("smb: state of a closed open", "open", d.id, "err", err)
	}
}

// noteClose has the close of an open that is not durable note the delete that it makes pending.
func (k *keptFiles) noteClose(f *vfs.Open) {
	if k.state != nil && f.Options()&vfs.DeleteOnClose != 0 {
		f.OnRevoke(func() { k.pend(f) })
	}
}

// pend notes that the delete of the file of an open is pending.
func (k *keptFiles) pend(f *vfs.Open) {
	for _, other := range k.of(f) {
		if err := other.kept.change(func(r *openRecord) { r.deleting = true }); err != nil {
			k.log.Error("smb: state of a pending delete", "open", other.id, "err", err)
		}
	}
}

// beginNaming begins a change of the name of the file of an open, which the state has too. The caller calls
// end. kept is false if the change leaves the state as it is: there is none, or the client has no right
// to make the change, so vfs refuses it. Changes on one device take turns; a file system that does not answer
// delays no other.
func (k *keptFiles) beginNaming(f *vfs.Open) (end func(), kept bool) {
	if k.state == nil || f.Granted()&vfs.Delete == 0 {
		return nil, false
	}
	m, _ := k.naming.LoadOrStore(f.Node().Device, new(sync.Mutex))
	turn := m.(*sync.Mutex)
	turn.Lock()
	return turn.Unlock, true
}

// rename renames the file of an open. While the rename is in progress the state has both paths.
func (k *keptFiles) rename(f *vfs.Open, path string, replace bool) error {
	end, kept := k.beginNaming(f)
	if !kept {
		return f.Rename(path, replace)
	}
	defer end()
	err := k.during(f, func(r *openRecord) { r.other = path }, func() error { return f.Rename(path, replace) })
	for _, d := range k.of(f) {
		now := d.file.Path()
		if e := d.kept.change(func(r *openRecord) { r.file.Path, r.other = now, "" }); e != nil {
			k.log.Error("smb: state of a renamed file", slog.Uint64("open", d.id), slog.Any("err", e))
		}
	}
	return err
}

// setDeleting makes the delete of the file of an open pending, or cancels it, in the state first.
func (k *keptFiles) setDeleting(f *vfs.Open, on bool) error {
	end, kept := k.beginNaming(f)
	if !kept {
		return f.SetDeleteOnClose(on)
	}
	defer end()
	before := f.Deleting()
	err := k.during(f, func(r *openRecord) { r.deleting = on }, func() error { return f.SetDeleteOnClose(on) })
	if err != nil {
		if e := k.change(f, func(r *openRecord) { r.deleting = before }); e != nil {
			k.log.Error("smb: state of a pending delete", "err", e)
		}
	}
	return err
}

// during changes the records of all durable opens of the file of an open, and then makes the change itself. The record
// of an open that is made meanwhile has the change too. Precondition: the caller has the turn of beginNaming.
func (k *keptFiles) during(f *vfs.Open, by func(*openRecord), do func() error) error {
	k.mu.Lock()
	if k.present == nil {
		k.present = make(map[vfs.NodeID]func(*openRecord))
	}
	k.present[f.Node()] = by
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.present, f.Node())
		k.mu.Unlock()
	}()
	if err := k.change(f, by); err != nil {
		return err
	}
	return do()
}

// change changes the records of all durable opens of the file of an open, up to the first error.
func (k *keptFiles) change(f *vfs.Open, by func(*openRecord)) error {
	for _, d := range k.of(f) {
		if err := d.kept.change(by); err != nil {
			return err
		}
	}
	return nil
}

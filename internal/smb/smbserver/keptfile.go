package smbserver

import (
	"log/slog"
	"sync"

	"lwio/vfs"
)

// keep writes a new durable open into the state, before the client knows of it.
func (t *lineages) keep(d *durable, s *Session) error {
	if t.state == nil {
		return nil
	}
	file, err := d.file.Record()
	if err != nil {
		return err
	}
	return d.kept.begin(t.state, d.id, d.record(s, d.action, file))
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
func (t *lineages) announce(d *durable, s *Session, id uint64, file vfs.Record) {
	if t.state != nil {
		_ = d.kept.announce(t.state, id, d.record(s, vfs.Created, file))
	}
}

// closed removes a durable open whose close begins, from the state first: the open keeps its locks up to
// the end of the close, and then no record says that it has them.
func (t *lineages) closed(d *durable) {
	if t.state != nil {
		t.forget(d)
	}
	t.remove(d)
}

// forget removes the records of a durable open, after the close if that may delete the file. The close of an
// open with the option DeleteOnClose makes the delete of the file pending for the other opens of the file.
func (t *lineages) forget(d *durable) {
	deletes := d.file.Options()&vfs.DeleteOnClose != 0
	if deletes && !d.kept.left() {
		t.pend(d.file)
	}
	late, err := d.kept.end(deletes)
	if late {
		t.ending.Go(func() {
			_ = d.file.Close() // waits for the close in progress; vfs logs a failed delete
			if err := t.state.Drop(d.id); err != nil {
				t.log.Error("smb: state of a closed open", "open", d.id, "err", err)
			}
		})
	}
	if err != nil {
		t.log.Error("smb: state of a closed open", "open", d.id, "err", err)
	}
}

// noteClose has the close of an open that is not durable note the delete that it makes pending.
func (t *lineages) noteClose(f *vfs.Open) {
	if t.state != nil && f.Options()&vfs.DeleteOnClose != 0 {
		f.OnRevoke(func() { t.pend(f) })
	}
}

// pend notes that the delete of the file of an open is pending.
func (t *lineages) pend(f *vfs.Open) {
	for _, other := range t.keptOf(f) {
		if err := other.kept.change(func(r *openRecord) { r.deleting = true }); err != nil {
			t.log.Error("smb: state of a pending delete", "open", other.id, "err", err)
		}
	}
}

// keptOf returns the durable opens of the file of an open.
func (t *lineages) keptOf(f *vfs.Open) (list []*durable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.opens {
		if d.file.Node() == f.Node() {
			list = append(list, d)
		}
	}
	return list
}

// beginNaming begins a change of the name of the file of an open, which the state has too. The caller calls
// end. kept is false if the change leaves the state as it is: there is none, or the client has no right
// to make the change, so vfs refuses it. Changes on one device take turns; a file system that does not answer
// delays no other.
func (t *lineages) beginNaming(f *vfs.Open) (end func(), kept bool) {
	if t.state == nil || f.Granted()&vfs.Delete == 0 {
		return nil, false
	}
	m, _ := t.naming.LoadOrStore(f.Node().Device, new(sync.Mutex))
	turn := m.(*sync.Mutex)
	turn.Lock()
	return turn.Unlock, true
}

// rename renames the file of an open. While the rename is in progress the state has both paths.
func (t *lineages) rename(f *vfs.Open, path string, replace bool) error {
	end, kept := t.beginNaming(f)
	if !kept {
		return f.Rename(path, replace)
	}
	defer end()
	err := t.changeAll(f, func(r *openRecord) { r.other = path })
	if err == nil {
		err = f.Rename(path, replace)
	}
	for _, d := range t.keptOf(f) {
		now := d.file.Path()
		if e := d.kept.change(func(r *openRecord) { r.file.Path, r.other = now, "" }); e != nil {
			t.log.Error("smb: state of a renamed file", slog.Uint64("open", d.id), slog.Any("err", e))
		}
	}
	return err
}

// setDeleting makes the delete of the file of an open pending, or cancels it, in the state first.
func (t *lineages) setDeleting(f *vfs.Open, on bool) error {
	end, kept := t.beginNaming(f)
	if !kept {
		return f.SetDeleteOnClose(on)
	}
	defer end()
	before := f.DeletePending()
	err := t.changeAll(f, func(r *openRecord) { r.deleting = on })
	if err == nil {
		err = f.SetDeleteOnClose(on)
	}
	if err != nil {
		if e := t.changeAll(f, func(r *openRecord) { r.deleting = before }); e != nil {
			t.log.Error("smb: state of a pending delete", "err", e)
		}
	}
	return err
}

// changeAll changes the records of all durable opens of the file of an open, up to the first error.
func (t *lineages) changeAll(f *vfs.Open, change func(*openRecord)) error {
	for _, d := range t.keptOf(f) {
		if err := d.kept.change(change); err != nil {
			return err
		}
	}
	return nil
}

// park leaves a durable open to the next process: its records stay, and its close deletes nothing.
// Without a state it does nothing.
func (t *lineages) park(d *durable) {
	if d.kept.leave() {
		t.files.Detach(d.file)
	}
}

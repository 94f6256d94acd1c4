package smbserver

import (
	"log/slog"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// carrier names the way of the response to a FLUSH to the client: a session of SMB, or a connection of another
// protocol (vfs.Recorder). The zero value is none. An open outlives its carriers, so a carrier is a name.
type carrier struct {
	other bool   // a connection of another protocol
	id    uint64 // of the session, or of that connection
}

// syncError is the last failure of the disk at a FLUSH of a durable open, or at a sync over another protocol. The
// system reports it once. The client may not get the response, so it is repeated on the next carrier, unless another
// FLUSH over the same carrier shows that the client has it: a FLUSH without an error says that all written data is on
// the disk. A FLUSH that is in progress at the failure shows nothing. Safe for concurrent use.
type syncError struct {
	mu       sync.Mutex
	st       ntstatus.Status // Success for none
	shown    carrier         // the last one that it was sent over
	by       uint64          // the number of the request that it was sent for
	requests uint64          // that have begun
	losses   uint64          // of written data of the file, by failures that any open of it had
}

// syncRequest is one FLUSH of a durable open, or one sync over another protocol.
type syncRequest struct {
	over   carrier
	number uint64 // among those of the open
	losses uint64 // when it began
}

// begin counts in a request over a carrier, and returns the failure that it has to report. A client that sends another
// one over the same carrier has seen the response to the last.
func (e *syncError) begin(c carrier) (syncRequest, ntstatus.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	r := syncRequest{c, e.requests, e.losses}
	if e.shown == c {
		e.st = ntstatus.Success
	}
	return r, e.showLocked(r)
}

// showLocked returns the failure, which is sent for a request. Precondition: mu is held.
func (e *syncError) showLocked(r syncRequest) ntstatus.Status {
	if e.st != ntstatus.Success && r.number > e.by {
		e.shown, e.by = r.over, r.number
	}
	return e.st
}

// fail notes the failure of a request. It is called before a sync that the failure is not part of begins.
func (e *syncError) fail(st ntstatus.Status, r syncRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.st, e.shown, e.by = st, r.over, r.number
}

// show notes that a request, which shares the sync of the one that has failed, has the same response.
func (e *syncError) show(r syncRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.showLocked(r)
}

// succeed returns the response to a request whose sync has succeeded: the failure of an earlier sync, if the request
// began before that and came over another carrier, because the first response may be lost. If all data of the file that
// was written before the request is on the disk, clean is called with the lock held.
func (e *syncError) succeed(r syncRequest, clean func()) ntstatus.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.st == ntstatus.Success:
		if e.losses == r.losses {
			clean()
		}
		return ntstatus.Success
	case e.shown == r.over:
		return ntstatus.Success
	}
	return e.showLocked(r)
}

// lose counts a loss of written data of the file. note is called with the lock held.
func (e *syncError) lose(note func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.losses++
	note()
}

// restore sets a failure that an earlier process has noted.
func (e *syncError) restore(st ntstatus.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.st, e.shown = st, carrier{}
}

// flush puts the written data of an open of a session on the disk.
//
// Source: [MS-SMB2 3.3.5.11], [OP-92f]
func (k *keptFiles) flush(o *open, s *Session) ntstatus.Status {
	return k.sync(o.file, o.durable, carrier{id: s.id})
}

// sync puts the written data of a file on the disk, for a request over a carrier. d is its durable open, or nil.
//
// Source: [OP-92f], [OP-116]
func (k *keptFiles) sync(f *vfs.Open, d *durable, c carrier) ntstatus.Status {
	if d == nil {
		st := statusOf(f.Sync())
		if st.LosesData() {
			k.syncFails(f, nil)
		}
		return st
	}
	r, st := d.syncFailed.begin(c)
	if st != ntstatus.Success {
		return st
	}
	st = statusOf(f.SyncNoting(func(err error) {
		if st := statusOf(err); st.LosesData() {
			d.syncFailed.fail(st, r)
		}
	}))
	switch {
	case st == ntstatus.Success:
		return d.syncFailed.succeed(r, func() { k.setUnsynced(d, false) })
	case st.LosesData():
		d.syncFailed.show(r)
		k.syncFails(f, nil)
	}
	return st
}

// throughFails notes a failure at a write of an open with vfs.WriteThrough, whose data goes to the disk like
// that of a FLUSH. The open itself has written nothing else that is not on the disk.
//
// Source: [OP-92f]
func (k *keptFiles) throughFails(f *vfs.Open) { k.syncFails(f, f) }

// syncFails notes a failure for all durable opens of a file but one. The system reports it to each of them, but not to
// those that the next process makes of their records.
func (k *keptFiles) syncFails(f, except *vfs.Open) {
	if k.state == nil {
		return
	}
	for _, d := range k.of(f) {
		if d.file != except && d.file.Granted()&(vfs.WriteData|vfs.AppendData) != 0 {
			d.syncFailed.lose(func() { k.setUnsynced(d, true) })
		}
	}
}

// setUnsynced notes in the state whether written data of an open may be lost, and its client may not know it.
func (k *keptFiles) setUnsynced(d *durable, on bool) {
	if err := d.kept.change(func(r *openRecord) { r.unsynced = on }); err != nil {
		k.log.Error("smb: state of a failed sync", slog.Uint64("open", d.id), slog.Any("err", err))
	}
}

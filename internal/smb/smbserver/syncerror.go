package smbserver

import (
	"log/slog"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// syncError is the last failure of the disk at a FLUSH of a durable open. The system reports it once. The client may
// not get the response, so it is repeated on the next session, unless another FLUSH of the same session shows that the
// client has it: a FLUSH without an error says that all written data is on the disk. Safe for concurrent use.
type syncError struct {
	mu    sync.Mutex
	st    ntstatus.Status // Success for none
	shown uint64          // id of the last session that it was sent to, 0 for none: an open outlives its sessions
}

// due returns the failure that a FLUSH of a session has to report. The client of the session that sends another
// one has seen the response to the last.
func (e *syncError) due(s *Session) ntstatus.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shown == s.id {
		e.st = ntstatus.Success
	}
	if e.st != ntstatus.Success {
		e.shown = s.id
	}
	return e.st
}

// set notes a failure. session is the id of the session that it is sent to, 0 for none.
func (e *syncError) set(st ntstatus.Status, session uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.st, e.shown = st, session
}

// flush puts the written data of an open on the disk.
//
// Source: [MS-SMB2 3.3.5.11], [OP-92f]
func (k *keptFiles) flush(o *open, s *Session) ntstatus.Status {
	d := o.durable
	if d != nil {
		if st := d.syncFailed.due(s); st != ntstatus.Success {
			return st
		}
	}
	st := statusOf(o.file.Sync())
	switch {
	case ofDisk(st):
		if d != nil {
			d.syncFailed.set(st, s.id)
		}
		k.syncFails(o.file, nil)
	case d != nil && st == ntstatus.Success:
		k.setUnsynced(d, false)
	}
	return st
}

// ofDisk reports whether a FLUSH with a status may have lost written data.
func ofDisk(st ntstatus.Status) bool {
	return st != ntstatus.Success && st != ntstatus.AccessDenied && st != ntstatus.FileClosed
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
			k.setUnsynced(d, true)
		}
	}
}

// setUnsynced notes in the state whether written data of an open may be lost, and its client may not know it.
func (k *keptFiles) setUnsynced(d *durable, on bool) {
	if err := d.kept.change(func(r *openRecord) { r.unsynced = on }); err != nil {
		k.log.Error("smb: state of a failed sync", slog.Uint64("open", d.id), slog.Any("err", err))
	}
}

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
// the disk. Safe for concurrent use.
type syncError struct {
	mu    sync.Mutex
	st    ntstatus.Status // Success for none
	shown carrier         // the last one that it was sent over
}

// due returns the failure that a FLUSH over a carrier has to report. A client that sends another one over the same
// carrier has seen the response to the last.
func (e *syncError) due(c carrier) ntstatus.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shown == c {
		e.st = ntstatus.Success
	}
	if e.st != ntstatus.Success {
		e.shown = c
	}
	return e.st
}

// set notes a failure, and the carrier that it is sent over.
func (e *syncError) set(st ntstatus.Status, c carrier) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.st, e.shown = st, c
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
	if d != nil {
		if st := d.syncFailed.due(c); st != ntstatus.Success {
			return st
		}
	}
	st := statusOf(f.Sync())
	switch {
	case ofDisk(st):
		if d != nil {
			d.syncFailed.set(st, c)
		}
		k.syncFails(f, nil)
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

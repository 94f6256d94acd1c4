package smbserver

import (
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// recorder does the locks and syncs of a durable open that come over another protocol, with the records and the lock
// sequences of those that come over SMB. So a request whose answer is lost may be sent again over either.
//
// Source: [OP-116]
type recorder struct {
	d     *durable
	files *keptFiles
}

var _ vfs.Recorder = recorder{}

// Lock is handleLock for one range, without waiting.
//
// Source: [MS-SMB2 3.3.5.14]
func (k recorder) Lock(l vfs.Lock, sequence uint32) error {
	q := smbwire.LockRequest{Sequence: sequence}
	if k.d.locks.repeated(&q) {
		return nil
	}
	err := k.d.file.TryLock(l)
	if err == nil {
		err = k.d.gotLocks(&q, l)
	}
	if err != nil {
		return k.d.notLocked(&q, err)
	}
	k.d.locks.done(&q)
	return nil
}

// Unlock is handleLock for the end of one lock.
//
// Source: [MS-SMB2 3.3.5.14.1]
func (k recorder) Unlock(r vfs.Range, sequence uint32) error {
	q := smbwire.LockRequest{Sequence: sequence}
	if k.d.locks.repeated(&q) {
		return nil
	}
	if err := k.d.kept.unlock([]vfs.Range{r}, &q, k.d.file.Unlock); err != nil {
		return k.d.notLocked(&q, err)
	}
	k.d.locks.done(&q)
	return nil
}

func (k recorder) Sync(connection uint64) error {
	if st := k.files.sync(k.d.file, k.d, carrier{other: true, id: connection}); st != ntstatus.Success {
		return st
	}
	return nil
}

// Blocks reports whether the open has a record in the state.
func (k recorder) Blocks() bool { return k.files.state != nil }

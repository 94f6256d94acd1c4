package smbserver

import (
	"context"
	"errors"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// lock locks or unlocks byte ranges. The sequence numbers by which clients of
// resilient and durable handles, or of several channels, tell a repeated request have
// no meaning here, as there are none of those.
//
// Source: [MS-SMB2 3.3.5.14]
func (r *request) lock() ntstatus.Status {
	q, err := smbwire.DecodeLockRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case o.file == nil:
		return ntstatus.InvalidDeviceRequest
	case q.Locks[0].Flags&smbwire.LockUnlock != 0:
		st = unlockRanges(o.file, q.Locks)
	default:
		st = r.lockRanges(o.file, q.Locks)
	}
	if st != ntstatus.Success {
		return st
	}
	return r.empty()
}

// unlockRanges unlocks one range after the other, as far as that goes.
//
// Source: [MS-SMB2 3.3.5.14.1]
func unlockRanges(f *vfs.Open, list []smbwire.LockElement) ntstatus.Status {
	for _, l := range list {
		if l.Flags != smbwire.LockUnlock {
			return ntstatus.InvalidParameter
		}
		if err := f.Unlock(vfs.Range{Off: l.Offset, Len: l.Length}); err != nil {
			return statusOf(err)
		}
	}
	return ntstatus.Success
}

// lockRanges locks all ranges, or none. Only one alone can be waited for, and not
// within a chain.
//
// Source: [MS-SMB2 3.3.5.14.2]
func (r *request) lockRanges(f *vfs.Open, list []smbwire.LockElement) ntstatus.Status {
	locks := make([]vfs.Lock, len(list))
	for i, l := range list {
		waits := l.Flags&smbwire.LockFailImmediately == 0
		switch l.Flags &^ smbwire.LockFailImmediately {
		case smbwire.LockShared, smbwire.LockExclusive:
		default:
			return ntstatus.InvalidParameter
		}
		if waits && len(list) > 1 {
			return ntstatus.InvalidParameter
		}
		locks[i] = vfs.Lock{
			Range: vfs.Range{Off: l.Offset, Len: l.Length}, Exclusive: l.Flags&smbwire.LockExclusive != 0,
		}
	}
	if list[0].Flags&smbwire.LockFailImmediately == 0 && r.alone {
		return r.waitForLock(f, locks[0])
	}
	err := f.TryLock(locks...)
	if errors.Is(err, ntstatus.LockNotGranted) && list[0].Flags&smbwire.LockFailImmediately == 0 {
		return ntstatus.InternalError
	}
	return statusOf(err)
}

// waitForLock locks a range; if that takes time the client is told to wait, and a
// goroutine does so for it, and answers.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-SMB2 3.3.4.2]
func (r *request) waitForLock(f *vfs.Open, l vfs.Lock) ntstatus.Status {
	wait, err := f.QueueLock(l)
	if wait == nil {
		return statusOf(err)
	}
	r.msg = nil // it goes with the job
	r.parked = r.conn.park(func() {
		defer r.done()
		r.pending()
		st := statusOf(wait.Wait(r.stopped))
		if st == ntstatus.Success {
			st = r.empty()
		}
		r.finish(st, false)
		r.conn.write(r.out)
	})
	if r.parked {
		return ntstatus.Pending
	}
	now, cancel := context.WithCancel(r.stopped)
	cancel()
	if wait.Wait(now) != nil {
		return ntstatus.InsufficientResources
	}
	return ntstatus.Success
}

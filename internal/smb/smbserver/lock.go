package smbserver

import (
	"context"
	"errors"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// handleLock serves LOCK: it locks or unlocks byte ranges. A repeated request of a durable open, which
// its sequence number marks, succeeds and does nothing. Sequence numbers of other opens are ignored.
//
// Source: [MS-SMB2 3.3.5.14]
func handleLock(r *request, q smbwire.LockRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case o.file == nil:
		return ntstatus.InvalidDeviceRequest
	case o.durable != nil && o.durable.locks.repeated(&q):
		return r.resp.empty()
	case q.Locks[0].Flags&smbwire.LockUnlock != 0:
		st = unlockRanges(o.file, q.Locks)
	default:
		st = lockRanges(r, o, &q)
	}
	if st != ntstatus.Success {
		return st
	}
	return locked(r, o, &q)
}

// locked makes the response to a LOCK that is done.
func locked(r *request, o *open, q *smbwire.LockRequest) ntstatus.Status {
	if o.durable != nil {
		o.durable.locks.done(q)
	}
	return r.resp.empty()
}

// unlockRanges unlocks one range after the other, up to the first that fails.
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

// lockRanges locks all ranges, or none. A request waits only for a single range, and not
// within a compound.
//
// Source: [MS-SMB2 3.3.5.14.2]
func lockRanges(r *request, o *open, q *smbwire.LockRequest) ntstatus.Status {
	list := q.Locks
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
	if list[0].Flags&smbwire.LockFailImmediately == 0 && r.single {
		return waitForLock(r, o, q, locks[0])
	}
	err := o.file.TryLock(locks...)
	if errors.Is(err, ntstatus.LockNotGranted) && list[0].Flags&smbwire.LockFailImmediately == 0 {
		return ntstatus.InternalError
	}
	return statusOf(err)
}

// waitForLock locks a range. If another open holds it, the client gets an interim response,
// and a parked goroutine waits for the range and sends the final response. The wait ends with the
// session.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-SMB2 3.3.4.2]
func waitForLock(r *request, o *open, q *smbwire.LockRequest, l vfs.Lock) ntstatus.Status {
	wait, err := o.file.QueueLock(l)
	if wait == nil {
		return statusOf(err)
	}
	memory, ok := r.hold(smallBody)
	if ok && r.park(memory, func() ntstatus.Status {
		if o.durable != nil { // the close of any other open ends the wait
			defer context.AfterFunc(r.session.ctx, r.waitDone)()
		}
		st := statusOf(wait.Wait(r.waitCtx))
		if st == ntstatus.Success {
			st = locked(r, o, q)
		}
		return st
	}) {
		return ntstatus.Pending
	}
	now, cancel := context.WithCancel(r.waitCtx)
	cancel()
	if wait.Wait(now) != nil {
		return ntstatus.InsufficientResources
	}
	return ntstatus.Success
}

package smbserver

import (
	"cmp"
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
	case o.lasting() && o.durable.locks.repeated(&q):
		return r.resp.empty()
	case q.Locks[0].Flags&smbwire.LockUnlock != 0:
		st = unlockRanges(o, &q)
	default:
		st = lockRanges(r, o, &q)
	}
	switch st {
	case ntstatus.Success:
		return locked(r, o, &q)
	case ntstatus.Pending:
		return st
	}
	return notLocked(o, &q, st)
}

// notLocked returns the status of a LOCK that has failed with st.
func notLocked(o *open, q *smbwire.LockRequest, st ntstatus.Status) ntstatus.Status {
	if !o.lasting() {
		return st
	}
	return statusOf(o.durable.notLocked(q, st))
}

// notLocked returns the error of a request that has failed with err, or the error of the log if the record of the bucket
// cannot be removed.
func (d *durable) notLocked(q *smbwire.LockRequest, err error) error {
	return cmp.Or(d.kept.failed(q), err)
}

// locked makes the response to a LOCK that is done.
func locked(r *request, o *open, q *smbwire.LockRequest) ntstatus.Status {
	if o.lasting() {
		o.durable.locks.done(q)
	}
	return r.resp.empty()
}

// gotLocks writes the locks that an open has got into the state, if the open is durable. If that fails
// the open loses the locks.
func (o *open) gotLocks(q *smbwire.LockRequest, locks ...vfs.Lock) ntstatus.Status {
	if o.durable == nil {
		return ntstatus.Success
	}
	return statusOf(o.durable.gotLocks(q, locks...))
}

// gotLocks writes the locks that the open has got into the state. If that fails the open loses the locks.
func (d *durable) gotLocks(q *smbwire.LockRequest, locks ...vfs.Lock) error {
	err := d.kept.lock(locks, q)
	if err != nil {
		ranges := make([]vfs.Range, len(locks))
		for i, l := range locks {
			ranges[i] = l.Range
		}
		_ = d.file.Unlock(ranges...) // only a close has unlocked them
	}
	return err
}

// unlockRanges unlocks the ranges up to the first that fails.
//
// Source: [MS-SMB2 3.3.5.14.1]
func unlockRanges(o *open, q *smbwire.LockRequest) ntstatus.Status {
	ranges := make([]vfs.Range, len(q.Locks))
	st := error(ntstatus.Success)
	for i, l := range q.Locks {
		if l.Flags != smbwire.LockUnlock {
			ranges, st = ranges[:i], ntstatus.InvalidParameter
			break
		}
		ranges[i] = vfs.Range{Off: l.Offset, Len: l.Length}
	}
	if o.durable != nil {
		if statusOf(st) != ntstatus.Success {
			q = new(smbwire.LockRequest) // without a sequence: the request fails
		}
		if err := o.durable.kept.unlock(ranges, q, o.file.Unlock); err != nil {
			return statusOf(err)
		}
		return statusOf(st)
	}
	if err := o.file.Unlock(ranges...); err != nil {
		return statusOf(err)
	}
	return statusOf(st)
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
	if err == nil {
		return o.gotLocks(q, locks...)
	}
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
	if wait == nil && err == nil {
		return o.gotLocks(q, l)
	}
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
			st = o.gotLocks(q, l)
		}
		if st != ntstatus.Success {
			return notLocked(o, q, st)
		}
		return locked(r, o, q)
	}) {
		return ntstatus.Pending
	}
	now, cancel := context.WithCancel(r.waitCtx)
	cancel()
	if wait.Wait(now) != nil {
		return ntstatus.InsufficientResources
	}
	return o.gotLocks(q, l)
}

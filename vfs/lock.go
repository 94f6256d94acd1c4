package vfs

import (
	"context"

	"lwio/internal/ntstatus"
)

// Lock is a byte-range lock. A shared lock allows all opens to read the range. No open may write it,
// not even the owner. An exclusive lock allows its owner to read and write, and other opens nothing.
//
// Source: [MS-SMB2 2.2.26.1], [MS-FSA 2.1.5.8]
type Lock struct {
	Range
	Exclusive bool
}

// TryLock locks all the ranges for the open, or none, without waiting. Shared locks may overlap. An
// open may also put a shared lock over its exclusive one. Locks are held until Unlock or Close;
// Close releases them when the I/O of the open has ended. I/O that began before a lock was granted
// may still be in flight.
//
// Errors: LOCK_NOT_GRANTED if another lock, perhaps of the same open, conflicts;
// INVALID_LOCK_RANGE; INVALID_PARAMETER for a directory; ACCESS_DENIED without ReadData
// and WriteData; INSUFFICIENT_RESOURCES above a limit of Config; FILE_CLOSED.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-FSA 2.1.5.8]
func (o *Open) TryLock(locks ...Lock) error {
	if err := mayLock(o.IsDir(), o.granted); err != nil {
		return o.fail("lock", err)
	}
	o.caching.change()
	err := o.locks.try(locks)
	o.caching.change()
	return o.fail("lock", err)
}

// QueueLock locks a range as TryLock does and returns nil. If another lock conflicts, it queues the
// request and returns it. Requests are granted in the order of arrival. A request waits for held
// locks only, not for other requests.
//
// Errors: the errors of TryLock, except LOCK_NOT_GRANTED.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-FSA 2.1.5.8]
func (o *Open) QueueLock(l Lock) (*LockWait, error) {
	err := mayLock(o.IsDir(), o.granted)
	if err != nil {
		return nil, o.fail("lock", err)
	}
	o.caching.change()
	w, err := o.locks.queue(l)
	o.caching.change()
	if w == nil {
		return nil, o.fail("lock", err)
	}
	return &LockWait{open: o, wait: w}, nil
}

// mayLock returns an error if an open with that access may not have locks.
func mayLock(dir bool, granted Access) error {
	switch {
	case dir:
		return ntstatus.InvalidParameter
	case granted&(ReadData|WriteData) == 0:
		return ntstatus.AccessDenied
	}
	return nil
}

// LockWait is a queued lock request. Its owner calls Wait.
type LockWait struct {
	open *Open
	wait *lockWait
}

// Wait returns when the lock is granted or the request fails. It is called once.
//
// Errors: the cause of ctx's end; RANGE_NOT_LOCKED if the open is closed meanwhile.
func (w *LockWait) Wait(ctx context.Context) error {
	return w.open.fail("lock", w.open.locks.await(ctx, w.wait))
}

// Unlock releases for each range one lock of the open with exactly that range, up to the first range without one. It
// prefers an exclusive lock. All of them are released together, so a request that waits for several of them does not
// lose to a later one that waits for the first. The time is proportional to the number of ranges and of the locks of the file.
//
// Errors: RANGE_NOT_LOCKED if there is no such lock; INVALID_LOCK_RANGE and INVALID_PARAMETER as
// TryLock.
//
// Source: [MS-SMB2 3.3.5.14.1], [MS-FSA 2.1.5.9]
func (o *Open) Unlock(ranges ...Range) error {
	if o.IsDir() {
		return o.fail("unlock", ntstatus.InvalidParameter)
	}
	return o.fail("unlock", o.locks.unlock(ranges))
}

// MayRead reports whether no lock of another open conflicts with a read. A data path that reads File
// calls it. It costs one atomic load while the file has no locks.
func (o *Open) MayRead(off int64, n int) bool { return o.locks.mayRead(off, n) }

// MayWrite reports whether no lock conflicts with a write of n bytes at off by the open, at this moment.
//
// Source: [OP-92b] [OP-92c]
func (o *Open) MayWrite(off int64, n int) bool { return o.locks.mayWrite(off, n) }

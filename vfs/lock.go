package vfs

import (
	"context"
	"slices"

	"lwio/internal/ntstatus"
)

// Lock is a byte-range lock: it keeps other opens from what it covers. A shared one
// lets everybody read, and nobody write, not even its owner; an exclusive one leaves
// both to its owner.
//
// Source: [MS-SMB2 2.2.26.1], [MS-FSA 2.1.5.8]
type Lock struct {
	Range
	Exclusive bool
}

// TryLock locks ranges for the open, all or none of them, at once or not at all. Locks
// may be put over each other as far as all are shared; an open may also put a shared
// lock over its exclusive one. They are held until Unlock or the end of the open, which
// lets them go when its I/O has come back. I/O that had begun when a lock was granted may
// still be going on.
//
// Errors: LOCK_NOT_GRANTED if another lock, perhaps of the same open, is in the way;
// INVALID_LOCK_RANGE; INVALID_PARAMETER for a directory; ACCESS_DENIED without ReadData
// and WriteData; INSUFFICIENT_RESOURCES above a limit of Config; FILE_CLOSED.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-FSA 2.1.5.8]
func (o *Open) TryLock(locks ...Lock) error { return o.lockFailed("lock", o.tryLock(locks)) }

func (o *Open) tryLock(locks []Lock) error {
	t := o.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range locks {
		err := o.admitLockLocked(l.Range, i)
		if err == nil && (t.barredLocked(o, l.Range, l.use()) || l.meetsOwn(locks[:i])) {
			o.uncountLocksLocked(1)
			err = ntstatus.LockNotGranted
		}
		if err != nil {
			o.uncountLocksLocked(i)
			return err
		}
	}
	t.addLocked(o, locks)
	return nil
}

// use is what the lock wants its range for.
func (l Lock) use() lockUse {
	if l.Exclusive {
		return toLockAlone
	}
	return toRead
}

// meetsOwn reports whether locks of the same open keep it from l, before they are in the
// table.
func (l Lock) meetsOwn(locks []Lock) bool {
	return l.Exclusive && slices.ContainsFunc(locks, func(m Lock) bool { return m.meets(l.Range) })
}

// LockWait is a lock that is waited for. Who has one calls Wait.
type LockWait struct {
	Lock
	open *Open
	done chan error // has room for the outcome
}

// QueueLock locks a range as TryLock does, or, where another lock is in the way, takes a
// place among those who wait for that and returns it. They are served in the order in
// which they came, except that nobody waits for somebody who waits himself.
//
// Errors: those of TryLock, but LOCK_NOT_GRANTED.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-FSA 2.1.5.8]
func (o *Open) QueueLock(l Lock) (*LockWait, error) {
	w, err := o.queueLock(l)
	return w, o.lockFailed("lock", err)
}

func (o *Open) queueLock(l Lock) (*LockWait, error) {
	t := o.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := o.admitLockLocked(l.Range, 0); err != nil || t.grantLocked(o, l) {
		return nil, err
	}
	w := &LockWait{Lock: l, open: o, done: make(chan error, 1)}
	t.waiting = append(t.waiting, w)
	o.fs.lockWaited.Add(1)
	o.fs.lockWaits.Add(1)
	return w, nil
}

// Wait returns when the lock is granted, or will not be. It is called once.
//
// Errors: the cause of ctx's end; RANGE_NOT_LOCKED if the open is closed meanwhile.
func (w *LockWait) Wait(ctx context.Context) error { return w.open.lockFailed("lock", w.wait(ctx)) }

func (w *LockWait) wait(ctx context.Context) error {
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	t := w.open.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return <-w.done // which was first
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	w.open.fs.lockWaits.Add(-1)
	w.open.uncountLocksLocked(1)
	return context.Cause(ctx)
}

// Unlock gives up one lock of the open, on exactly that range; an exclusive one first.
//
// Errors: RANGE_NOT_LOCKED if there is none; INVALID_LOCK_RANGE and INVALID_PARAMETER as
// TryLock.
//
// Source: [MS-SMB2 3.3.5.14.1], [MS-FSA 2.1.5.9]
func (o *Open) Unlock(r Range) error { return o.lockFailed("unlock", o.unlock(r)) }

func (o *Open) unlock(r Range) error {
	t := o.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.dir {
		return ntstatus.InvalidParameter
	}
	if !r.valid() {
		return ntstatus.InvalidLockRange
	}
	if !t.takeLocked(o, Lock{r, true}) && !t.takeLocked(o, Lock{r, false}) {
		return ntstatus.RangeNotLocked
	}
	o.uncountLocksLocked(1)
	t.wakeLocked(r.meets)
	return nil
}

// MayRead reports whether no lock of another open is in the way of a read, for a data
// path that reads the file itself. It costs one atomic load while nothing is locked.
func (o *Open) MayRead(off int64, n int) bool {
	return o.locks.held.Load() == 0 || n == 0 || !o.locks.barred(o, Range{uint64(off), uint64(n)}, toRead)
}

// mayWrite is MayRead for a write. An open that may only append writes at the end of the
// file.
func (o *Open) mayWrite(off int64, n int) bool {
	if o.locks.held.Load() == 0 || n == 0 {
		return true
	}
	if o.granted&WriteData == 0 {
		if info, err := o.handle.Stat(); err == nil {
			off = info.Size
		}
	}
	return !o.locks.barred(o, Range{uint64(off), uint64(n)}, toWrite)
}

// admitLockLocked checks a lock that is wanted together with others, and counts it.
func (o *Open) admitLockLocked(r Range, others int) error {
	t := o.locks
	switch {
	case o.lockless:
		return ntstatus.FileClosed
	case o.dir:
		return ntstatus.InvalidParameter
	case o.granted&(ReadData|WriteData) == 0:
		return ntstatus.AccessDenied
	case !r.valid():
		return ntstatus.InvalidLockRange
	case o.locked >= o.fs.maxOpenLocks:
		return because(ntstatus.InsufficientResources, "too many locks of one open")
	case len(t.list)+len(t.waiting)+others >= o.fs.maxFileLocks:
		return because(ntstatus.InsufficientResources, "too many locks of one file")
	case !o.fs.locks.take(o.user):
		return because(ntstatus.InsufficientResources, "too many locks")
	}
	o.locked++
	return nil
}

// uncountLocksLocked undoes the counting of n locks.
func (o *Open) uncountLocksLocked(n int) {
	o.locked -= n
	o.fs.locks.give(o.user, n)
}

// lockFailed names the open in an error. The table is not locked.
func (o *Open) lockFailed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fail(op, o.share.Name, o.Path(), err)
}

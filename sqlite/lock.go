package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
)

// The bytes that stand for the levels of locks. SQLite keeps no data there.
//
// A shared lock is a shared lock of sharedRange, taken while pendingByte is locked shared, and an
// exclusive lock an exclusive one. A reserved lock adds reservedByte to a shared lock, and a
// pending lock pendingByte.
var (
	pendingByte  = lwio.Range{Off: 1 << 30, Len: 1}
	reservedByte = lwio.Range{Off: 1<<30 + 1, Len: 1}
	sharedRange  = lwio.Range{Off: 1<<30 + 2, Len: 510}
)

// LockState returns the level of the lock.
func (f *file) LockState() vfs.LockLevel { return f.level }

// Lock raises the lock to SHARED, RESERVED or EXCLUSIVE.
//
// Errors: sqlite3.BUSY if another connection has a lock in the way.
func (f *file) Lock(level vfs.LockLevel) error {
	if f.level >= level {
		return nil
	}
	ctx, cancel := f.interruptible()
	defer cancel()
	var err error
	switch level {
	case vfs.LOCK_SHARED:
		f.forgive()
		if err = f.settle(ctx); err == nil {
			err = f.lockShared(ctx)
		}
	case vfs.LOCK_RESERVED:
		err = f.try(ctx, reservedByte, lwio.LockExclusive)
	case vfs.LOCK_EXCLUSIVE:
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		err = f.lockExclusive(ctx)
	default:
		err = fmt.Errorf("lock %s: no level %d", f.name, level)
	}
	switch {
	case err == nil:
		f.level = level
	case errors.Is(err, sqlite3.BUSY):
		return sqlite3.BUSY
	}
	return f.refused(err, sqlite3.IOERR_LOCK)
}

// lockShared takes a shared lock. The pending byte is held meanwhile, so that a connection which
// waits for an exclusive lock keeps new readers out.
func (f *file) lockShared(ctx context.Context) error {
	if err := f.try(ctx, pendingByte, lwio.LockShared); err != nil {
		return err
	}
	err := f.try(ctx, sharedRange, lwio.LockShared)
	if e := f.unlock(pendingByte); e != nil && err == nil {
		err = errors.Join(e, f.unlock(sharedRange))
	}
	return err
}

// lockExclusive raises a shared or reserved lock. A failure leaves the pending lock.
func (f *file) lockExclusive(ctx context.Context) error {
	if f.level < vfs.LOCK_PENDING {
		if err := f.try(ctx, pendingByte, lwio.LockExclusive); err != nil {
			return err
		}
		f.level = vfs.LOCK_PENDING
	}
	// The shared lock of this connection would be in the way. The pending byte keeps writers out.
	if err := f.unlock(sharedRange); err != nil {
		return err
	}
	err := f.try(ctx, sharedRange, lwio.LockExclusive)
	if err == nil {
		return nil
	}
	if e := f.try(ctx, sharedRange, lwio.LockShared); e != nil {
		if errors.Is(e, sqlite3.BUSY) { // for SQLite, busy means that the shared lock is still there
			e = errors.New("a program that is not SQLite has the bytes of the shared lock")
		}
		return e
	}
	return err
}

// Unlock lowers the lock to SHARED or NONE. The error of SQLite for a failed transaction has the cause that
// this call returns.
func (f *file) Unlock(level vfs.LockLevel) error {
	if f.level <= level {
		return f.withCause()
	}
	held := f.level
	f.level = level
	var errs []error
	if level == vfs.LOCK_SHARED && held == vfs.LOCK_EXCLUSIVE {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		errs = append(errs, f.unlock(sharedRange))
		if err := f.try(ctx, sharedRange, lwio.LockShared); err != nil {
			return f.failure(errors.Join(append(errs, err)...), sqlite3.IOERR_RDLOCK)
		}
	}
	if held >= vfs.LOCK_RESERVED {
		errs = append(errs, f.unlock(reservedByte))
	}
	if level == vfs.LOCK_NONE {
		errs = append(errs, f.unlock(sharedRange))
	}
	if held >= vfs.LOCK_PENDING {
		errs = append(errs, f.unlock(pendingByte))
	}
	if err := errors.Join(errs...); err != nil {
		return f.failure(err, sqlite3.IOERR_UNLOCK)
	}
	return f.withCause()
}

// CheckReservedLock reports whether any connection has a reserved lock.
func (f *file) CheckReservedLock() (bool, error) {
	if f.level >= vfs.LOCK_RESERVED {
		return true, nil
	}
	ctx, cancel := f.interruptible()
	defer cancel()
	err := f.try(ctx, reservedByte, lwio.LockShared)
	if errors.Is(err, sqlite3.BUSY) {
		return true, nil
	}
	if err == nil {
		err = f.unlock(reservedByte)
	}
	return false, f.refused(err, sqlite3.IOERR_CHECKRESERVEDLOCK)
}

// try takes a lock, or fails with sqlite3.BUSY.
func (f *file) try(ctx context.Context, r lwio.Range, mode lwio.LockMode) error {
	err := f.f.TryLock(ctx, r, mode)
	if errors.Is(err, lwio.ErrLocked) {
		return sqlite3.BUSY
	}
	f.unsettled = f.unsettled || err != nil
	return err
}

// unlock ends a lock, which may be missing after a failure. No interrupt ends it.
func (f *file) unlock(r lwio.Range) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := f.f.Unlock(ctx, r)
	if errors.Is(err, fs.ErrInvalid) {
		return nil
	}
	f.unsettled = f.unsettled || err != nil
	return err
}

// settle ends the locks that calls without an answer may have left. Precondition: the level is NONE.
func (f *file) settle(ctx context.Context) error {
	if !f.unsettled {
		return nil
	}
	for _, r := range []lwio.Range{pendingByte, reservedByte, sharedRange} {
		var err error
		for err == nil {
			err = f.f.Unlock(ctx, r)
		}
		if !errors.Is(err, fs.ErrInvalid) {
			return err
		}
	}
	f.unsettled = false
	return nil
}

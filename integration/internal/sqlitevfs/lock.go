package sqlitevfs

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
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var err error
	switch level {
	case vfs.LOCK_SHARED:
		err = f.lockShared(ctx)
	case vfs.LOCK_RESERVED:
		err = f.try(ctx, reservedByte, lwio.LockExclusive)
	case vfs.LOCK_EXCLUSIVE:
		err = f.lockExclusive(ctx)
	default:
		err = fmt.Errorf("lock %s: no level %d", f.name, level)
	}
	if err == nil {
		f.level = level
	}
	return err
}

// lockShared takes a shared lock. The pending byte is held meanwhile, so that a connection which
// waits for an exclusive lock keeps new readers out.
func (f *file) lockShared(ctx context.Context) error {
	if err := f.try(ctx, pendingByte, lwio.LockShared); err != nil {
		return err
	}
	err := f.try(ctx, sharedRange, lwio.LockShared)
	if e := f.unlock(ctx, pendingByte); e != nil {
		return errors.Join(err, e)
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
	if err := f.unlock(ctx, sharedRange); err != nil {
		return err
	}
	err := f.try(ctx, sharedRange, lwio.LockExclusive)
	if err == nil {
		return nil
	}
	if e := f.try(ctx, sharedRange, lwio.LockShared); e != nil {
		return vfs.SystemError(errors.Join(err, e), sqlite3.IOERR_RDLOCK)
	}
	return err
}

// Unlock lowers the lock to SHARED or NONE.
func (f *file) Unlock(level vfs.LockLevel) error {
	if f.level <= level {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	held := f.level
	f.level = level
	var errs []error
	if level == vfs.LOCK_SHARED && held == vfs.LOCK_EXCLUSIVE {
		errs = append(errs, f.unlock(ctx, sharedRange))
		if err := f.try(ctx, sharedRange, lwio.LockShared); err != nil {
			errs = append(errs, vfs.SystemError(err, sqlite3.IOERR_RDLOCK))
		}
	}
	if held >= vfs.LOCK_RESERVED {
		errs = append(errs, f.unlock(ctx, reservedByte))
	}
	if level == vfs.LOCK_NONE {
		errs = append(errs, f.unlock(ctx, sharedRange))
	}
	if held >= vfs.LOCK_PENDING {
		errs = append(errs, f.unlock(ctx, pendingByte))
	}
	return errors.Join(errs...)
}

// CheckReservedLock reports whether any connection has a reserved lock.
func (f *file) CheckReservedLock() (bool, error) {
	if f.level >= vfs.LOCK_RESERVED {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := f.try(ctx, reservedByte, lwio.LockShared)
	switch {
	case errors.Is(err, sqlite3.BUSY):
		return true, nil
	case err != nil:
		return false, vfs.SystemError(err, sqlite3.IOERR_CHECKRESERVEDLOCK)
	}
	return false, f.unlock(ctx, reservedByte)
}

// try takes a lock, or fails with sqlite3.BUSY.
func (f *file) try(ctx context.Context, r lwio.Range, mode lwio.LockMode) error {
	err := f.f.TryLock(ctx, r, mode)
	if errors.Is(err, lwio.ErrLocked) {
		return sqlite3.BUSY
	}
	return err
}

// unlock ends a lock, which may be missing after a failure.
func (f *file) unlock(ctx context.Context, r lwio.Range) error {
	err := f.f.Unlock(ctx, r)
	if errors.Is(err, fs.ErrInvalid) {
		return nil
	}
	return err
}

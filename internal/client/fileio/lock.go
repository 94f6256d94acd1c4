package fileio

import (
	"context"
	"fmt"
	"io/fs"

	"lwio/internal/client/smbshare"
	"lwio/internal/wire"
)

// LockMode is the mode of a byte-range lock, exported as lwio.LockMode.
type LockMode uint8

// The modes.
const (
	LockExclusive LockMode = iota
	LockShared
)

// Lock locks a range of bytes and waits for the lock, until ctx ends or Config.Timeout is over.
func (f *File) Lock(ctx context.Context, r smbshare.Range, mode LockMode) error {
	return f.failed("lock", f.LockRange(ctx, r, mode, true))
}

// TryLock locks a range of bytes, or fails at once if another lock excludes it.
func (f *File) TryLock(ctx context.Context, r smbshare.Range, mode LockMode) error {
	return f.failed("lock", f.LockRange(ctx, r, mode, false))
}

// LockRange locks a range. With wait it waits for the lock, else it fails at once.
func (f *File) LockRange(ctx context.Context, r smbshare.Range, mode LockMode, wait bool) error {
	if err := f.check(ctx, 0, 0); err != nil {
		return err
	}
	if mode > LockShared {
		return fmt.Errorf("%w: %d is no LockMode", fs.ErrInvalid, mode)
	}
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	lock := func(fid uint16, l wire.FileLock) wire.Header { return wire.NewLock(fid, l, mode == LockShared) }
	return f.h.Lock(ctx, r, mode == LockExclusive, wait, f.locker(ctx, lock, r))
}

// Unlock ends the lock of exactly this range, after all earlier writes of the file.
func (f *File) Unlock(ctx context.Context, r smbshare.Range) error {
	return f.failed("unlock", f.ordered(ctx, func(ctx context.Context) error {
		return f.h.Unlock(ctx, r, f.locker(ctx, wire.NewUnlock, r))
	}))
}

package sqlitevfs

import (
	"context"
	"errors"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
)

// sectorSize is the unit in which a disk writes, in bytes: the usual page of a database.
const sectorSize = 4096

// file is an open file of the share. SQLite uses it from one goroutine at a time.
type file struct {
	s         *share
	f         *lwio.File
	name      string
	database  *file // that a journal belongs to, the file itself for a database, or nil
	level     vfs.LockLevel
	temporary bool // Close removes the file
}

var (
	_ vfs.File          = (*file)(nil)
	_ vfs.FileLockState = (*file)(nil)
)

// Close ends the locks and closes the file.
func (f *file) Close() error {
	err := f.f.Close()
	if f.temporary {
		err = errors.Join(err, f.s.Delete(f.name, false))
	}
	return err
}

// ReadAt reads len(p) bytes, fewer with io.EOF at the end of the file.
func (f *file) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// WriteAt writes p.
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.surely(func(ctx context.Context) (err error) {
		n, err = f.f.WriteAtContext(ctx, p, off)
		return err
	})
	if errors.Is(err, syscall.ENOSPC) {
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}

// Truncate changes the size.
func (f *file) Truncate(size int64) error {
	return f.surely(func(ctx context.Context) error { return f.f.Truncate(ctx, size) })
}

// Sync puts all written data on stable storage, whichever kind of sync SQLite asks for.
func (f *file) Sync(vfs.SyncFlag) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return f.f.Sync(ctx)
}

// Size asks the server for the size.
func (f *file) Size() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	info, err := f.f.Stat(ctx)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// surely makes a change. If its outcome is uncertain, it is made again while no other client may
// write: Sync first makes sure that the first one is done or never will be.
func (f *file) surely(change func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	for {
		err := change(ctx)
		if !errors.Is(err, lwio.ErrUncertain) || ctx.Err() != nil || !f.excludesWriters(ctx) {
			return err
		}
		if e := f.f.Sync(ctx); e != nil {
			return errors.Join(err, e)
		}
		f.s.repeated.Add(1)
	}
}

// excludesWriters reports whether the database is locked by this connection so that no other may
// write, and its open is still the one that has the lock.
func (f *file) excludesWriters(ctx context.Context) bool {
	if f.database == nil || f.database.level < vfs.LOCK_RESERVED {
		return false
	}
	_, err := f.database.f.Stat(ctx)
	return err == nil
}

// SectorSize is the size of the pieces that a loss of power may damage.
func (f *file) SectorSize() int { return sectorSize }

// DeviceCharacteristics says that a write damages no bytes beside it.
func (f *file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE
}

package sqlite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
)

// sectorSize is the unit in which a disk writes, in bytes: the usual page of a database.
const sectorSize = 4096

// file is an open file of the share. SQLite uses it from one goroutine at a time.
type file struct {
	s        *share
	f        *lwio.File
	name     string
	flags    vfs.OpenFlag
	database *file // that a journal belongs to, the file itself for a database, or nil
	db       *sqlite3.Conn

	level      vfs.LockLevel
	unsettled  bool // the outcome of a LOCK or UNLOCK is unknown
	exclusive  bool // locking_mode, as the last PRAGMA of this database sets it
	powersafe  bool
	persistLog bool
	cause      error // the last failure of the transaction; s.mu guards it
	dead       bool  // the server keeps the open no more; s.mu guards it
}

var (
	_ vfs.FileLockState          = (*file)(nil)
	_ vfs.FileHasMoved           = (*file)(nil)
	_ vfs.FilePersistWAL         = (*file)(nil)
	_ vfs.FilePowersafeOverwrite = (*file)(nil)
	_ vfs.FilePragma             = (*file)(nil)
)

// SetDB records the connection of SQLite, whose interrupts end reads and locks.
func (f *file) SetDB(db any) { f.db, _ = db.(*sqlite3.Conn) }

// Close ends the locks and closes the file. The last file of a retired share ends the share.
func (f *file) Close() error {
	err := f.f.Close()
	if f.flags&vfs.OPEN_DELETEONCLOSE != 0 {
		err = errors.Join(err, f.s.Delete(f.name, false))
	}
	return vfs.SystemError(errors.Join(err, f.s.forget(f)), sqlite3.IOERR_CLOSE)
}

// ReadAt reads len(p) bytes, fewer with io.EOF at the end of the file.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	ctx, cancel := f.interruptible()
	defer cancel()
	n, err := f.f.ReadAtContext(ctx, p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, f.refused(err, sqlite3.IOERR_READ)
	}
	if f.database == f && !f.exclusive && off == 0 && n > versionOfReader && max(p[versionOfReader], p[versionOfWriter]) == versionWAL {
		_ = f.fail(ErrSharedWAL) // if SQLite can open no log
	}
	return n, err
}

// WriteAt writes p.
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.surely(func(ctx context.Context) (err error) {
		n, err = f.f.WriteAtContext(ctx, p, off)
		return err
	})
	return n, f.failure(err, sqlite3.IOERR_WRITE)
}

// Truncate changes the size.
func (f *file) Truncate(size int64) error {
	err := f.surely(func(ctx context.Context) error { return f.f.Truncate(ctx, size) })
	return f.failure(err, sqlite3.IOERR_TRUNCATE)
}

// Sync puts all written data on stable storage, for each kind of sync.
func (f *file) Sync(vfs.SyncFlag) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return f.failure(f.f.Sync(ctx), sqlite3.IOERR_FSYNC)
}

// Size asks the server for the size.
func (f *file) Size() (int64, error) {
	ctx, cancel := f.interruptible()
	defer cancel()
	info, err := f.f.Stat(ctx)
	if err != nil {
		return 0, f.refused(err, sqlite3.IOERR_FSTAT)
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

// excludesWriters reports whether no other connection may write the file: it is the journal of one
// transaction, or the database is locked by this connection, and its open is still the one that has
// the lock.
func (f *file) excludesWriters(ctx context.Context) bool {
	if f.flags&vfs.OPEN_SUPER_JOURNAL != 0 {
		return true
	}
	if f.database == nil || f.database.level < vfs.LOCK_RESERVED {
		return false
	}
	return f.database.keepsLock(ctx) == nil
}

// keepsLock returns an error if the lock of the database, by which the connection changes it, is lost. A journal has a name
// and the lock belongs to an open: when a server that was away is back without the open, another connection may have the
// lock, and a journal of that name is not ours. f may be nil.
func (f *file) keepsLock(ctx context.Context) error {
	if f == nil || f.database != f || f.level < vfs.LOCK_RESERVED {
		return nil
	}
	_, err := f.f.Stat(ctx)
	return err
}

// interruptible returns a context for one call that changes nothing. f may be nil.
func (f *file) interruptible() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.interrupts(), callTime)
}

// interrupts returns the context of the interrupts of the connection, unless a transaction has begun to write: its rollback
// must not be interrupted.
func (f *file) interrupts() context.Context {
	if f != nil && f.db != nil && f.database == f && f.level < vfs.LOCK_RESERVED {
		return f.db.GetInterrupt()
	}
	return context.Background()
}

// refused is failure for a call with an interruptible context.
func (f *file) refused(err error, code sqlite3.ExtendedErrorCode) error {
	if err != nil && f.interrupts().Err() != nil {
		return vfs.SystemError(f.fail(err), sqlite3.INTERRUPT)
	}
	return f.failure(err, code)
}

// failure gives an error of the client a code of SQLite.
func (f *file) failure(err error, code sqlite3.ExtendedErrorCode) error {
	if err == nil {
		return nil
	}
	f.fail(err)
	if errors.Is(err, syscall.ENOSPC) {
		return vfs.SystemError(err, sqlite3.FULL)
	}
	return vfs.SystemError(err, code)
}

// fail records an error as the cause of the failure of the transaction.
func (f *file) fail(err error) error {
	if f == nil {
		return err
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	dead := errors.Is(err, fs.ErrClosed)
	f.dead = f.dead || dead
	if d := f.database; d != nil {
		d.cause, d.dead = err, d.dead || dead
	}
	return err
}

// withCause returns nil as SQLite sees it, with the cause of the failure of the transaction, if there
// is one. The error of SQLite has the cause of the last call of the file system, and after a failure SQLite
// unlocks the database.
func (f *file) withCause() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return vfs.SystemError(f.cause, sqlite3.ErrorCode(0))
}

// forgive begins a transaction without a failure.
func (f *file) forgive() {
	f.s.mu.Lock()
	f.cause = nil
	f.s.mu.Unlock()
}

// SectorSize is the size of the pieces that a loss of power may damage.
func (f *file) SectorSize() int { return sectorSize }

// DeviceCharacteristics says that a write damages no bytes beside it, and that reads may have any size. An
// open file can be deleted, so it is no UNDELETABLE_WHEN_OPEN: a connection that kept its journal open could
// write into one that another connection has deleted.
func (f *file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	c := vfs.IOCAP_SUBPAGE_READ
	if f.powersafe {
		c |= vfs.IOCAP_POWERSAFE_OVERWRITE
	}
	return c
}

// PowersafeOverwrite reports whether a write damages no bytes beside it.
func (f *file) PowersafeOverwrite() bool { return f.powersafe }

// SetPowersafeOverwrite changes the report of PowersafeOverwrite, for psow in a URI.
func (f *file) SetPowersafeOverwrite(yes bool) { f.powersafe = yes }

// PersistWAL reports whether the log stays after the last close.
func (f *file) PersistWAL() bool { return f.persistLog }

// SetPersistWAL has the log stay, or not, after the last close.
func (f *file) SetPersistWAL(yes bool) { f.persistLog = yes }

// HasMoved reports whether the name of the file has gone, or belongs to another file by now.
func (f *file) HasMoved() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	info, err := f.s.c.Stat(ctx, nameOf(f.name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, f.failure(err, sqlite3.IOERR_FSTAT)
	}
	was, is := idOf(f.f.OpenInfo()), idOf(info)
	return was != 0 && is != 0 && was != is, nil
}

// idOf is the number by which the server knows a file, or 0.
func idOf(info fs.FileInfo) uint64 {
	if i, ok := info.Sys().(*lwio.SMBInfo); ok {
		return i.ID
	}
	return 0
}

// The bytes of the header of a database that say whether a log is needed to read and to write it.
const (
	versionOfWriter, versionOfReader = 18, 19
	versionWAL                       = 2
)

// ErrSharedWAL is the cause of a refusal: a database in the journal mode WAL is not locked exclusively. The
// package comment has the reason.
var ErrSharedWAL = errors.New("a log (WAL) is for one connection: PRAGMA locking_mode = EXCLUSIVE comes before journal_mode = WAL, and before the first read")

// Pragma refuses a log that several connections would share, and leaves all else to SQLite.
func (f *file) Pragma(name, value string) (string, error) {
	switch value = strings.ToLower(strings.Trim(value, `'"`)); {
	case name == "locking_mode" && value != "":
		f.exclusive = value == "exclusive"
	case name == "journal_mode" && value == "wal" && !f.exclusive:
		return "", ErrSharedWAL
	}
	return "", sqlite3.NOTFOUND
}

package vfs

import (
	"math"

	"lwio/internal/ntstatus"
)

// ready returns an error for I/O without the right or without a reference, and for an offset that no
// file can have.
func (o *Open) ready(op string, need Access, n int, off int64) error {
	switch {
	case o.granted&need == 0:
		return o.fail(op, ntstatus.AccessDenied)
	case o.dir != nil:
		return o.fail(op, ntstatus.InvalidDeviceRequest)
	case off < 0 || off > math.MaxInt64-int64(n):
		return o.fail(op, because(ntstatus.InvalidParameter, "offset out of range"))
	case !o.refs.held():
		return ntstatus.FileClosed
	}
	return nil
}

// ReadAt reads into p from byte offset off. It returns fewer bytes than len(p), without an
// error, at the end of the file. The caller holds a reference. It does not allocate, and may
// wait for the disk.
//
// Errors: FILE_LOCK_CONFLICT where another open has an exclusive lock; END_OF_FILE (bare)
// at and after the end; ACCESS_DENIED without ReadData and Execute, and after a Reauthorize
// that closes the open; INVALID_PARAMETER for an offset that is negative or so large that the
// end of p lies beyond 2^63; FILE_CLOSED (bare) without a reference; INVALID_DEVICE_REQUEST for
// a directory.
//
// Source: [MS-FSA 2.1.5.3] [OP-92a] [OP-92b] [OP-92c] [OP-57] [LWIO §Read]
func (o *Open) ReadAt(p []byte, off int64) (int, error) {
	if err := o.ready("read", dataRead, len(p), off); err != nil || len(p) == 0 {
		return 0, err
	}
	if !o.locks.mayRead(off, len(p)) {
		return 0, o.fail("read", ntstatus.FileLockConflict)
	}
	n, err := o.handle.ReadAt(p, off)
	if err != nil {
		return n, o.fail("read", err)
	}
	if o.withdrawn.Load() {
		return 0, o.fail("read", errWithdrawn)
	}
	if n == 0 {
		return 0, ntstatus.EndOfFile
	}
	return n, nil
}

// ReadCached is ReadAt without waiting for the disk. If ok is true, n and err are the result of
// ReadAt. If ok is false, it has read n bytes from the page cache; the other bytes are not there, or
// the file system does not report that. Then a goroutine that may wait calls ReadAt for p[n:]. A
// caller with other work passes at most MaxCachedRead bytes, because copying takes time too.
//
// Source: [LWIO §Read] [OP-92a]
func (o *Open) ReadCached(p []byte, off int64) (n int, ok bool, err error) {
	if err := o.ready("read", dataRead, len(p), off); err != nil || len(p) == 0 {
		return 0, true, err
	}
	if !o.locks.mayRead(off, len(p)) {
		return 0, true, o.fail("read", ntstatus.FileLockConflict)
	}
	n, ok, err = o.handle.ReadCached(p, off)
	switch {
	case err != nil:
		return n, true, o.fail("read", err)
	case ok && n == 0:
		return 0, true, ntstatus.EndOfFile
	}
	return n, ok, nil
}

// MaxCachedRead is the largest read from the page cache, in bytes, for a goroutine that has other
// work.
const MaxCachedRead = 64 << 10

// WriteAt writes p at byte offset off. When it returns without an error all of p is written and,
// if the open has write-through, on stable storage. An open that may only append ignores off and
// writes at the end of the file. The caller holds a reference.
//
// Errors, with the number of written bytes: DISK_FULL; FILE_TOO_LARGE beyond a limit of the file
// system or of the process; ACCESS_DENIED without WriteData and AppendData; FILE_LOCK_CONFLICT where
// any open has a shared lock, or another open an exclusive one; the other errors of ReadAt.
//
// Source: [MS-FSA 2.1.5.4] [OP-92b] [OP-92c] [OP-92f] [OP-57] [LWIO §Write]
func (o *Open) WriteAt(p []byte, off int64) (int, error) {
	w := o.BeginWrite(nil, off, len(p))
	defer o.EndWrite(w)
	return o.WriteAtBegun(p, off)
}

// WriteAtBegun is WriteAt for a write that BeginWrite has begun.
func (o *Open) WriteAtBegun(p []byte, off int64) (int, error) {
	if err := o.ready("write", dataWrite, len(p), off); err != nil || len(p) == 0 {
		return 0, err
	}
	if !o.locks.mayWrite(off, len(p)) {
		return 0, o.fail("write", ntstatus.FileLockConflict)
	}
	o.caching.change()
	o.fs.beginsChange()
	n, err := o.handle.WriteAt(p, off, o.options&WriteThrough != 0)
	o.caching.change()
	if n > 0 {
		o.changes.wrote()
	}
	if err != nil {
		return n, o.writeFails(err)
	}
	return n, nil
}

// WriteVec is WriteAt for memory in several pieces, which it writes one after the other. No piece is
// empty. It changes the list, not the memory. A conflicting lock on any piece refuses all of them.
//
// Source: [OP-92f] [LWIO §Write]
func (o *Open) WriteVec(pieces [][]byte, off int64) (int, error) {
	w := o.BeginWrite(nil, off, sizeOf(pieces))
	defer o.EndWrite(w)
	return o.WriteVecBegun(pieces, off)
}

// sizeOf returns the number of bytes of memory in pieces.
func sizeOf(pieces [][]byte) (total int) {
	for _, p := range pieces {
		total += len(p)
	}
	return total
}

// WriteVecBegun is WriteVec for a write that BeginWrite has begun.
func (o *Open) WriteVecBegun(pieces [][]byte, off int64) (int, error) {
	total := sizeOf(pieces)
	if err := o.ready("write", dataWrite, total, off); err != nil || total == 0 {
		return 0, err
	}
	if !o.locks.mayWrite(off, total) {
		return 0, o.fail("write", ntstatus.FileLockConflict)
	}
	o.caching.change()
	o.fs.beginsChange()
	n, err := o.handle.WriteVec(pieces, off, o.options&WriteThrough != 0)
	o.caching.change()
	if n > 0 {
		o.changes.wrote()
	}
	if err != nil {
		return n, o.writeFails(err)
	}
	return n, nil
}

// writeFails returns the error of a write that the backend has refused or not completed.
func (o *Open) writeFails(err error) error {
	err = o.fail("write", err)
	if f := o.fs.throughFailed.Load(); f != nil && o.options&WriteThrough != 0 && ntstatus.Of(err) != ntstatus.FileTooLarge {
		(*f)(o)
	}
	return err
}

// Sync puts all written data of the file on stable storage, including the data of other opens. Calls of one open that
// run at the same time share a sync of the backend.
//
// Errors: ACCESS_DENIED for a file that the open may not write.
//
// Source: [MS-SMB2 3.3.5.11] [OP-92f]
func (o *Open) Sync() error { return o.SyncNoting(func(error) {}) }

// SyncNoting is Sync. If a sync of the backend fails, note is called with its error before another sync of the open
// begins: so a later sync that succeeds does not hide the failure. It is the note of one of the calls that share the
// sync. note must not sync or close the open.
//
// Source: [OP-92f]
func (o *Open) SyncNoting(note func(error)) error {
	return o.use("sync", func() error {
		if !o.IsDir() && o.granted&dataWrite == 0 {
			return ntstatus.AccessDenied
		}
		o.changes.settle().send()
		return o.syncs.do(func() error {
			err := o.handle.Sync()
			if err != nil {
				note(err)
			}
			return err
		})
	})
}

// Truncate sets the size of the file, in bytes. New bytes are zeros.
//
// Errors: ACCESS_DENIED without WriteData, INVALID_PARAMETER for a negative size
// or a directory, DISK_FULL, FILE_TOO_LARGE.
//
// Source: [MS-FSCC 2.4.14]
func (o *Open) Truncate(size int64) error {
	return o.use("truncate", func() error {
		switch {
		case o.granted&WriteData == 0:
			return ntstatus.AccessDenied
		case size < 0 || o.IsDir():
			return ntstatus.InvalidParameter
		}
		w := o.beginChange(nil, size, math.MaxInt64)
		defer o.EndWrite(w)
		o.caching.change()
		o.fs.beginsChange()
		err := o.handle.Truncate(size)
		o.caching.change()
		if err != nil {
			return err
		}
		o.changes.modified(ChangedSize | ChangedAttributes).send()
		return nil
	})
}

package vfs

import (
	"math"

	"lwio/internal/ntstatus"
)

// ready refuses I/O that the open does not allow, that has no reference, or
// that no file can serve.
func (o *Open) ready(op string, need Access, n int, off int64) error {
	switch {
	case o.granted&need == 0:
		return fail(op, o.share.Name, o.Path(), ntstatus.AccessDenied)
	case o.dir:
		return fail(op, o.share.Name, o.Path(), ntstatus.InvalidDeviceRequest)
	case off < 0 || off > math.MaxInt64-int64(n):
		return fail(op, o.share.Name, o.Path(), because(ntstatus.InvalidParameter, "offset out of range"))
	case !o.refs.held():
		return ntstatus.FileClosed
	}
	return nil
}

// ReadAt reads into p from byte offset off. Fewer bytes than asked for, without
// an error, are those before the end of the file. The caller holds a reference.
// It does not allocate, and may wait for the disk.
//
// Errors: FILE_LOCK_CONFLICT where another open has an exclusive lock; END_OF_FILE (bare)
// at and after the end; ACCESS_DENIED without
// ReadData and Execute; INVALID_PARAMETER for an offset that is negative or so large that
// the end of p lies beyond 2^63; FILE_CLOSED (bare) without a reference;
// INVALID_DEVICE_REQUEST for a directory.
//
// Source: [OP-92a] [OP-92b] [OP-92c] [OP-57] [LWIO §Read]
func (o *Open) ReadAt(p []byte, off int64) (int, error) {
	if err := o.ready("read", dataRead, len(p), off); err != nil || len(p) == 0 {
		return 0, err
	}
	if !o.MayRead(off, len(p)) {
		return 0, o.conflict("read")
	}
	n, err := o.handle.ReadAt(p, off)
	if err != nil {
		return n, fail("read", o.share.Name, o.Path(), err)
	}
	if n == 0 {
		return 0, ntstatus.EndOfFile
	}
	return n, nil
}

// ReadCached is ReadAt without waiting: ok false says that n bytes were read
// and the rest would have to come from the disk, or that the file system cannot
// tell; then somebody who may wait calls ReadAt for p[n:]. With ok true the
// result is ReadAt's. A caller that must not be held up by copying either
// passes at most MaxCachedRead bytes.
//
// Source: [LWIO §Read] [OP-92a]
func (o *Open) ReadCached(p []byte, off int64) (n int, ok bool, err error) {
	if err := o.ready("read", dataRead, len(p), off); err != nil || len(p) == 0 {
		return 0, true, err
	}
	if !o.MayRead(off, len(p)) {
		return 0, true, o.conflict("read")
	}
	n, ok, err = o.handle.ReadCached(p, off)
	switch {
	case err != nil:
		return n, true, fail("read", o.share.Name, o.Path(), err)
	case ok && n == 0:
		return 0, true, ntstatus.EndOfFile
	}
	return n, ok, nil
}

// conflict refuses what a lock forbids.
//
// Source: [MS-FSA 2.1.5.3], [MS-FSA 2.1.5.4]
func (o *Open) conflict(op string) error {
	return fail(op, o.share.Name, o.Path(), ntstatus.FileLockConflict)
}

// MaxCachedRead is the number of bytes up to which a read from the page cache
// is short enough to be done where others wait.
const MaxCachedRead = 64 << 10

// WriteAt writes p at byte offset off. When it returns without an error all of p
// is written and, if the open asked for write-through, on stable storage. An
// open that may only append writes at the end of the file, whatever off is. The
// caller holds a reference.
//
// Errors, with the count of bytes that were written: DISK_FULL; FILE_TOO_LARGE
// beyond what the file system or a limit allows; ACCESS_DENIED without WriteData
// and AppendData; FILE_LOCK_CONFLICT where anybody has a shared lock, or another open
// an exclusive one; otherwise as ReadAt.
//
// Source: [OP-92b] [OP-92c] [OP-92f] [OP-57] [LWIO §Write]
func (o *Open) WriteAt(p []byte, off int64) (int, error) {
	if err := o.ready("write", dataWrite, len(p), off); err != nil || len(p) == 0 {
		return 0, err
	}
	if !o.mayWrite(off, len(p)) {
		return 0, o.conflict("write")
	}
	n, err := o.handle.WriteAt(p, off, o.options&WriteThrough != 0)
	if err != nil {
		return n, fail("write", o.share.Name, o.Path(), err)
	}
	return n, nil
}

// WriteVec is WriteAt for memory in several pieces, none of them empty, which are written
// one behind the other. It uses up the list, and not what that refers to. A lock in the way
// of any piece refuses all.
//
// Source: [OP-92f] [LWIO §Write]
func (o *Open) WriteVec(pieces [][]byte, off int64) (int, error) {
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	if err := o.ready("write", dataWrite, total, off); err != nil || total == 0 {
		return 0, err
	}
	if !o.mayWrite(off, total) {
		return 0, o.conflict("write")
	}
	n, err := o.handle.WriteVec(pieces, off, o.options&WriteThrough != 0)
	if err != nil {
		return n, fail("write", o.share.Name, o.Path(), err)
	}
	return n, nil
}

// Sync puts all that was written to the file on stable storage, by whomever.
//
// Errors: ACCESS_DENIED for a file that the open may not write.
//
// Source: [MS-SMB2 3.3.5.11] [OP-92f]
func (o *Open) Sync() error {
	return o.use("sync", func() error {
		if !o.dir && o.granted&dataWrite == 0 {
			return ntstatus.AccessDenied
		}
		return o.handle.Sync()
	})
}

// Truncate sets the size of the file, in bytes. What it grows by reads as zeros.
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
		case size < 0 || o.dir:
			return ntstatus.InvalidParameter
		}
		return o.handle.Truncate(size)
	})
}

// use runs f with a reference of its own and names what failed.
func (o *Open) use(op string, f func() error) error {
	if err := o.Acquire(); err != nil {
		return fail(op, o.share.Name, o.Path(), err)
	}
	defer o.Release()
	return fail(op, o.share.Name, o.Path(), f())
}

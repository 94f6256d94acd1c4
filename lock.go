package lwio

import (
	"context"

	"lwio/internal/client/fileio"
	"lwio/internal/client/smbshare"
)

// Range is a range of bytes of a file: Len of them from Off on. It may lie beyond the end
// of the file; Range{Len: math.MaxUint64} is all that a file can have but for its last
// byte. A Range without bytes is the place before Off, and is locked if what surrounds it
// is.
//
// Source: [MS-SMB2 2.2.26.1]
type Range struct{ Off, Len uint64 }

// LockMode says what a lock leaves to others.
type LockMode uint8

// The modes.
const (
	// LockExclusive keeps everybody else from reading, writing and locking.
	LockExclusive LockMode = iota
	// LockShared lets everybody read and lock it shared, and nobody write, not even who
	// has locked it.
	LockShared
)

// Lock locks a range of the file and waits for its turn if somebody else has locked what
// he would not share; this File counts as somebody else where it has locked the range
// itself, except that a shared lock may be put over its own exclusive one. Every Lock
// needs an Unlock of the same range.
//
// When ctx ends, after Config.Timeout if it has no deadline, the server is told, and Lock
// returns when the server says that the lock is not granted, or does not say so within
// two seconds. A lock that was granted at that very moment is had: there is no error.
//
// The server holds everybody to it, over SMB and over RDMA: reads and writes of other
// Files in the range, of other programs and of this one, fail with [ErrLocked]. What was
// being read or written when the lock was granted may still go on, so that programs should
// lock before they read, too. The size of the file is not protected.
//
// The lock belongs to the File and its SMB session: it outlives RDMA connections, and ends
// with Unlock, with Close, and when the session is lost, as then the File is, too.
//
// Errors: *Error: ctx's error; fs.ErrInvalid for a range that goes beyond the byte 2^64-1;
// fs.ErrPermission for a file that is open for neither reading nor writing; what else the
// server answered.
//
// Source: [MS-SMB2 3.2.4.19], [OP-115]
func (f *File) Lock(ctx context.Context, r Range, mode LockMode) error {
	return f.f.Lock(ctx, smbshare.Range(r), fileio.LockMode(mode))
}

// TryLock is Lock without waiting for others: the error is [ErrLocked] then.
//
// Source: [MS-SMB2 3.2.4.19]
func (f *File) TryLock(ctx context.Context, r Range, mode LockMode) error {
	return f.f.TryLock(ctx, smbshare.Range(r), fileio.LockMode(mode))
}

// Unlock ends one lock of exactly that range, an exclusive one first, after all earlier
// writes: who locks it next reads them.
//
// Errors: *Error: fs.ErrInvalid if there is no such lock; ctx's error, after which the
// range may be locked or not.
//
// Source: [MS-SMB2 3.2.4.20], [OP-115]
func (f *File) Unlock(ctx context.Context, r Range) error { return f.f.Unlock(ctx, smbshare.Range(r)) }

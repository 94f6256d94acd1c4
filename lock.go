package lwio

import (
	"context"

	"lwio/internal/client/fileio"
	"lwio/internal/client/smbshare"
)

// Range is a range of bytes of a file: Len of them from Off on. It may lie beyond the end
// of the file; Range{Len: math.MaxUint64} is all that a file can have but for its last
// byte. A Range without bytes is the place before Off, and is locked if the bytes around it
// are.
//
// Source: [MS-SMB2 2.2.26.1]
type Range struct{ Off, Len uint64 }

// LockMode is the access that a lock leaves to other clients.
type LockMode uint8

// The modes.
const (
	// LockExclusive keeps all others from reading, writing and locking.
	LockExclusive LockMode = iota
	// LockShared lets every client read and lock it shared, and none write, not even the
	// holder.
	LockShared
)

// Lock locks a range of the file. It waits while another File holds a lock in the range that
// does not admit this one; a lock of the same File conflicts too, except that a shared lock
// may be put over its own exclusive one. Every Lock needs an Unlock of the same range.
//
// When ctx ends, after Config.Timeout if it has no deadline, Lock asks the server to cancel,
// and returns when the server answers that the lock is not granted, or after two seconds
// without an answer. If the lock was granted at that very moment, there is no error.
//
// The server enforces the lock over SMB and over RDMA: reads and writes of other
// Files in the range, of other programs and of this one, fail with [ErrLocked]. Reads and
// writes in flight when the lock is granted may still go on, so that programs should
// lock before they read, too. The size of the file is not protected.
//
// The lock belongs to the File and its SMB session: it outlives RDMA connections, and ends
// with Unlock, with Close, and when the session is lost, as then the File is, too.
//
// Errors: *Error: ctx's error; fs.ErrInvalid for a range that goes beyond the byte 2^64-1;
// fs.ErrPermission for a file that is open for neither reading nor writing; other statuses of
// the server.
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
// writes: the next holder of the range reads them.
//
// Errors: *Error: fs.ErrInvalid if there is no such lock; ctx's error, after which the
// range may be locked or not.
//
// Source: [MS-SMB2 3.2.4.20], [OP-115]
func (f *File) Unlock(ctx context.Context, r Range) error { return f.f.Unlock(ctx, smbshare.Range(r)) }

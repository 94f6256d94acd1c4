package lwio

import (
	"context"

	"lwio/internal/client/fileio"
	"lwio/internal/client/smbshare"
)

// Range is a range of Len bytes of a file from offset Off. It may lie beyond the end of the
// file. Range{Len: math.MaxUint64} covers every byte that a file can have, except byte 2^64-1. A
// Range of no bytes is the position before Off, and conflicts only with a range that has bytes
// on both sides of it.
//
// Source: [MS-SMB2 2.2.26.1]
type Range struct{ Off, Len uint64 }

// LockMode is the access that a lock leaves to other opens of the file.
type LockMode uint8

// The lock modes.
const (
	// LockExclusive: other opens can neither read, write nor lock the range.
	LockExclusive LockMode = iota
	// LockShared: every open can read the range and lock it shared. No open can write it, not
	// even the one that holds the lock.
	LockShared
)

// Lock locks a range of the file. It waits while another File holds a conflicting lock. A lock
// of the same File conflicts too, except that a shared lock may be put over an exclusive one of
// this File. Every Lock needs an Unlock of the same range.
//
// When ctx ends, or after Config.Timeout if ctx has no deadline, Lock cancels the request at the
// server. It returns with the answer of the server, or after two seconds without one. If the
// server granted the lock at the same moment, there is no error.
//
// The server enforces the lock over SMB and over RDMA: reads and writes by other Files, in this
// program and in others, fail with [ErrLocked]. Reads and writes that the server has begun when
// it grants the lock can still finish, so programs should lock before they read, too. The lock
// does not protect the size of the file.
//
// The lock belongs to the File. It outlives the loss of connections, RDMA and SMB. It ends with
// Unlock, with Close, and when the File is stale (ErrStale).
//
// Errors: *Error: the error of ctx; fs.ErrInvalid for a range beyond byte 2^64-1;
// fs.ErrPermission for a file that is open for neither reading nor writing; other statuses of
// the server.
//
// Source: [MS-SMB2 3.2.4.19], [OP-115]
func (f *File) Lock(ctx context.Context, r Range, mode LockMode) error {
	return f.f.Lock(ctx, smbshare.Range(r), fileio.LockMode(mode))
}

// TryLock is Lock, but fails with [ErrLocked] instead of waiting for a conflicting lock.
//
// Source: [MS-SMB2 3.2.4.19]
func (f *File) TryLock(ctx context.Context, r Range, mode LockMode) error {
	return f.f.TryLock(ctx, smbshare.Range(r), fileio.LockMode(mode))
}

// Unlock ends one lock of exactly that range, an exclusive one first. It waits for all earlier
// writes, so the next owner of a lock on the range reads them.
//
// Errors: *Error: fs.ErrInvalid if there is no such lock; the error of ctx, after which the
// range may be locked or not.
//
// Source: [MS-SMB2 3.2.4.20], [OP-115]
func (f *File) Unlock(ctx context.Context, r Range) error { return f.f.Unlock(ctx, smbshare.Range(r)) }

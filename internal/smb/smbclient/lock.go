package smbclient

import (
	"context"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Lock locks n bytes from byte off, shared or exclusive. With wait it returns when the lock
// is granted, or when ctx ends. The end of ctx cancels the lock; a lock that the server has
// granted by then is no error. If the server does not respond within cancelGrace, a lock
// that is granted later is unlocked. Locks end with the file.
//
// Errors: LOCK_NOT_GRANTED if a conflicting lock exists, of this file or of another, and
// wait is false; INVALID_LOCK_RANGE for a range beyond the largest offset.
//
// Source: [MS-SMB2 3.2.4.19]
func (f *File) Lock(ctx context.Context, off, n uint64, exclusive, wait bool) error {
	flags := smbwire.LockShared
	if exclusive {
		flags = smbwire.LockExclusive
	}
	if !wait {
		flags |= smbwire.LockFailImmediately
	}
	q := f.lockRequest(off, n, flags)
	q.late = func(ctx context.Context, r *response) {
		if r.Status == ntstatus.Success {
			f.unlockSoon(ctx, off, n)
		}
	}
	return f.run(ctx, q)
}

// Unlock unlocks the range of one Lock.
//
// Errors: RANGE_NOT_LOCKED if the range is not locked.
//
// Source: [MS-SMB2 3.2.4.20]
func (f *File) Unlock(ctx context.Context, off, n uint64) error {
	return f.run(ctx, f.lockRequest(off, n, smbwire.LockUnlock))
}

// lockRequest returns the LOCK of one range.
func (f *File) lockRequest(off, n uint64, flags uint32) request {
	return request{command: smbwire.CommandLock, treeID: f.t.id, blocking: true, body: &smbwire.LockRequest{
		FileID: f.id, Locks: []smbwire.LockElement{{Offset: off, Length: n, Flags: flags}},
	}}
}

// unlockSoon unlocks a range without waiting for the response.
func (f *File) unlockSoon(ctx context.Context, off, n uint64) {
	c := f.t.s.conn
	if list, err := c.send(ctx, f.lockRequest(off, n, smbwire.LockUnlock)); err == nil {
		c.abandon(list[0], false)
	}
}

package smbclient

import (
	"context"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Lock locks n bytes from byte off on, shared or exclusive. With wait it returns when
// that is done, however long that takes, or ctx ends. The lock is cancelled then; if the
// server has granted it already there is no error, and if it does not say within
// cancelGrace what it has done, a lock that is granted later is given back. Locks end with
// the file.
//
// Errors: LOCK_NOT_GRANTED if somebody else, or this file, has locked what it would not
// share, and wait is false; INVALID_LOCK_RANGE for more bytes than there can be.
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
	p := f.lockPart(off, n, flags)
	p.late = func(ctx context.Context, r *response) {
		if r.Status == ntstatus.Success {
			f.unlockSoon(ctx, off, n)
		}
	}
	return fail("lock", f.name, f.lock(ctx, p))
}

// Unlock unlocks what one Lock has locked.
//
// Errors: RANGE_NOT_LOCKED if there was none.
//
// Source: [MS-SMB2 3.2.4.20]
func (f *File) Unlock(ctx context.Context, off, n uint64) error {
	return fail("unlock", f.name, f.lock(ctx, f.lockPart(off, n, smbwire.LockUnlock)))
}

func (f *File) lockPart(off, n uint64, flags uint32) part {
	return part{command: smbwire.CommandLock, treeID: f.t.id, patient: true, body: &smbwire.LockRequest{
		FileID: f.id, Locks: []smbwire.LockElement{{Offset: off, Length: n, Flags: flags}},
	}}
}

func (f *File) lock(ctx context.Context, p part) error {
	r, err := f.do(ctx, p)
	if err != nil {
		return err
	}
	f.t.s.conn.free(r)
	return nil
}

// unlockSoon unlocks without waiting for the answer.
func (f *File) unlockSoon(ctx context.Context, off, n uint64) {
	c := f.t.s.conn
	if list, err := c.send(ctx, f.lockPart(off, n, smbwire.LockUnlock)); err == nil {
		c.abandon(list[0], false)
	}
}

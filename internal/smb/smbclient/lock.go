package smbclient

import (
	"context"
	"errors"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// LockCall is one lock or unlock of a range.
type LockCall struct {
	// Off and Len are the range, in bytes.
	Off, Len uint64
	// Unlock ends one lock of the range; Exclusive and Wait have no meaning then.
	Unlock, Exclusive, Wait bool
	// Sequence, the result of smbwire.LockSequence, makes a repetition of the call on a persistent
	// open do nothing if the server has done it; 0 for none.
	Sequence uint32
	// Late is called with the outcome of a call that was given up, if the response arrives. nil
	// unlocks a lock that is granted so late.
	Late func(ctx context.Context, done bool)
}

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
	return f.DoLock(ctx, LockCall{Off: off, Len: n, Exclusive: exclusive, Wait: wait})
}

// Unlock unlocks the range of one Lock.
//
// Errors: RANGE_NOT_LOCKED if the range is not locked.
//
// Source: [MS-SMB2 3.2.4.20]
func (f *File) Unlock(ctx context.Context, off, n uint64) error {
	return f.DoLock(ctx, LockCall{Off: off, Len: n, Unlock: true})
}

// DoLock is Lock or Unlock. After an error for which Undecided reports true, the server may do the
// call later.
//
// Source: [MS-SMB2 3.2.4.19], [MS-SMB2 3.2.4.20]
func (f *File) DoLock(ctx context.Context, c LockCall) error {
	if c.Late == nil && !c.Unlock {
		c.Late = func(ctx context.Context, done bool) {
			if done {
				f.UnlockSoon(ctx, LockCall{Off: c.Off, Len: c.Len})
			}
		}
	}
	return f.run(ctx, f.lockRequest(&c))
}

// UnlockSoon unlocks the range of c without waiting for the response, which goes to c.Late.
func (f *File) UnlockSoon(ctx context.Context, c LockCall) {
	c.Unlock = true
	conn := f.t.s.conn
	if list, err := conn.send(ctx, f.lockRequest(&c)); err == nil {
		conn.abandon(list[0], false)
	}
}

// lockRequest returns the LOCK of one range.
func (f *File) lockRequest(c *LockCall) request {
	flags := smbwire.LockShared
	switch {
	case c.Unlock:
		flags = smbwire.LockUnlock
	case c.Exclusive:
		flags = smbwire.LockExclusive
	}
	if !c.Unlock && !c.Wait {
		flags |= smbwire.LockFailImmediately
	}
	q := request{command: smbwire.CommandLock, treeID: f.t.id, blocking: true, body: &smbwire.LockRequest{
		Sequence: c.Sequence, FileID: f.id, Locks: []smbwire.LockElement{{Offset: c.Off, Length: c.Len, Flags: flags}},
	}}
	if late := c.Late; late != nil {
		q.late = func(ctx context.Context, r *response) { late(ctx, r.Status == ntstatus.Success) }
	}
	return q
}

// undecidedError is the end of a call whose request the server may still execute.
type undecidedError struct{ cause error }

func (e *undecidedError) Error() string { return e.cause.Error() }

func (e *undecidedError) Unwrap() error { return e.cause }

// Undecided reports whether err is the error of a LockCall that was given up before the server
// responded, even to its cancellation.
func Undecided(err error) bool {
	var e *undecidedError
	return errors.As(err, &e)
}

package smbshare

import (
	"context"
	"errors"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

func (h *handle) Lock(ctx context.Context, r Range, exclusive, wait bool, by Carrier) error {
	return h.lock(ctx, smbclient.LockCall{Off: r.Off, Len: r.Len, Exclusive: exclusive, Wait: wait}, by)
}

func (h *handle) Unlock(ctx context.Context, r Range, by Carrier) error {
	return h.lock(ctx, smbclient.LockCall{Off: r.Off, Len: r.Len, Unlock: true}, by)
}

// lock does one LOCK request. On a persistent open it has a sequence, so the server does it once even if
// it is sent again after a loss, over another carrier or over SMB. A lock that the call gives up while its outcome is
// unknown is settled later.
//
// Source: [MS-SMB2 3.2.4.19], [OP-116]
func (h *handle) lock(ctx context.Context, c smbclient.LockCall, by Carrier) error {
	if !h.persistent {
		return h.try(ctx, false, func(f *smbclient.File) error { return f.DoLock(ctx, c) })
	}
	bucket, sequence := h.locks.take()
	d := &doubt{bucket: bucket, sequence: sequence, r: Range{c.Off, c.Len}, unlock: c.Unlock, exclusive: c.Exclusive}
	c.Sequence = sequence
	undecided := false // a request was sent, and nothing says whether the server has done it
	if by != nil && sequence != 0 {
		r := by(ctx, sequence)
		waits := c.Wait && errors.Is(r.Err, ntstatus.LockNotGranted) // only over SMB
		switch {
		case r.Outcome == GivenUp:
			h.settleAfter(d, r.Over)
			return r.Err
		case r.Outcome == Answered && !waits:
			h.locks.free(bucket, r.Err == nil)
			return r.Err
		}
		undecided = r.Outcome == Lost
	}
	return h.lockOverSMB(ctx, c, d, undecided)
}

// lockOverSMB sends the LOCK request c, whose outcome d is in doubt if undecided is set.
func (h *handle) lockOverSMB(ctx context.Context, c smbclient.LockCall, d *doubt, undecided bool) error {
	bucket, sequence := d.bucket, d.sequence
	err := h.s.try(ctx, sequence != 0, func(l *link) error {
		f, err := h.fileOn(ctx, l)
		if err != nil {
			return err
		}
		if sequence != 0 {
			c.Late = func(ctx context.Context, done bool) { h.lateLock(ctx, f, d, done) }
		}
		err = f.DoLock(ctx, c)
		switch {
		case err == nil || smbclient.Refused(err):
			undecided = false
		case smbclient.Undecided(err):
			undecided, d.on = true, l
		case lost(l, err) && !Unsent(err):
			undecided = true
		}
		return err
	})
	switch {
	case !undecided:
		h.locks.free(bucket, err == nil)
	case sequence == 0:
		return base.Uncertain(err)
	default:
		h.locks.add(d)
		h.settleSoon()
	}
	return err
}

// settleAfter settles a lock that was given up over another carrier, once over says that nothing of its request
// goes on at the server.
func (h *handle) settleAfter(d *doubt, over func(ctx context.Context) error) {
	_ = h.s.start(func() { // the end of the session ends the locks
		if over(h.s.ctx) == nil {
			h.locks.add(d)
			h.settleSoon()
		}
	})
}

// lateLock handles the response to a lock that was given up on the link of f. A lock that the server has
// granted is unlocked.
func (h *handle) lateLock(ctx context.Context, f *smbclient.File, d *doubt, done bool) {
	if !done || d.unlock {
		h.locks.drop(d, done)
		return
	}
	h.locks.granted(d)
	f.UnlockSoon(ctx, smbclient.LockCall{
		Off: d.r.Off, Len: d.r.Len, Sequence: d.sequence,
		Late: func(_ context.Context, done bool) { h.locks.drop(d, done) },
	})
}

// settleSoon settles the locks in doubt on the present link, if the open has been reclaimed on it.
func (h *handle) settleSoon() {
	f, on := h.file()
	if on.s.Err() != nil {
		return // the reclaim does it
	}
	settle := func() {
		select {
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
			_ = h.settleLocks(h.s.ctx, f, on) // after a loss the reclaim does it
		case <-h.s.ctx.Done():
		}
	}
	_ = h.s.start(settle) // the end of the session ends the locks
}

// settleLocks finds out, on the next link, about requests that were given up: it sends each again under its
// sequence. A lock that the server has granted, or grants now, is unlocked. Precondition: the caller has
// the turn.
//
// Errors: the loss of the link; ctx's.
func (h *handle) settleLocks(ctx context.Context, f *smbclient.File, l *link) error {
	for _, d := range h.locks.open(l) {
		err := f.DoLock(ctx, smbclient.LockCall{Off: d.r.Off, Len: d.r.Len, Unlock: d.unlock, Exclusive: d.exclusive, Sequence: d.sequence})
		if err == nil && !d.unlock {
			h.locks.granted(d)
			err = f.DoLock(ctx, smbclient.LockCall{Off: d.r.Off, Len: d.r.Len, Unlock: true, Sequence: d.sequence})
		}
		if err != nil && !smbclient.Refused(err) {
			return err
		}
		h.locks.drop(d, err == nil)
	}
	return nil
}

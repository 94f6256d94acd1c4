package smbshare

import (
	"context"

	"lwio/internal/client/base"
	"lwio/internal/smb/smbclient"
)

func (h *handle) Lock(ctx context.Context, r Range, exclusive, wait bool) error {
	return h.lock(ctx, smbclient.LockCall{Off: r.Off, Len: r.Len, Exclusive: exclusive, Wait: wait})
}

func (h *handle) Unlock(ctx context.Context, r Range) error {
	return h.lock(ctx, smbclient.LockCall{Off: r.Off, Len: r.Len, Unlock: true})
}

// lock does one LOCK request. On a persistent open it has a sequence, so the server does it once even if
// it is sent again after a loss. A lock that the call gives up while its outcome is unknown is settled
// later.
//
// Source: [MS-SMB2 3.2.4.19]
func (h *handle) lock(ctx context.Context, c smbclient.LockCall) error {
	if !h.persistent {
		return h.try(ctx, false, func(f *smbclient.File) error { return f.DoLock(ctx, c) })
	}
	bucket, sequence := h.locks.take()
	d := &doubt{bucket: bucket, sequence: sequence, r: Range{c.Off, c.Len}, unlock: c.Unlock, exclusive: c.Exclusive}
	c.Sequence = sequence
	undecided := false // a request was sent, and nothing says whether the server has done it
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
		h.locks.free(bucket)
	case sequence == 0:
		return base.Uncertain(err)
	default:
		h.locks.add(d)
		h.settleSoon()
	}
	return err
}

// lateLock handles the response to a lock that was given up on the link of f. A lock that the server has
// granted is unlocked.
func (h *handle) lateLock(ctx context.Context, f *smbclient.File, d *doubt, done bool) {
	if !done || d.unlock {
		h.locks.drop(d)
		return
	}
	h.locks.granted(d)
	f.UnlockSoon(ctx, d.r.Off, d.r.Len, d.sequence)
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
		h.locks.drop(d)
	}
	return nil
}

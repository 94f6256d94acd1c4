package lwiotest_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"pgregory.net/rapid"

	"lwio"
)

// heldLock is a lock that a client has, or may have if it is not sure.
type heldLock struct {
	k    *client
	f    *lwio.File
	r    lwio.Range
	mode lwio.LockMode
	sure bool
}

// meets reports whether the lock and the range, which both have bytes, have one in common.
func (h *heldLock) meets(r lwio.Range) bool { return h.r.Off < r.Off+r.Len && r.Off < h.r.Off+h.r.Len }

// denies reports whether the lock keeps f from another one.
func (h *heldLock) denies(x heldLock) bool {
	return h.meets(x.r) && (x.mode == lwio.LockExclusive || h.mode == lwio.LockExclusive && h.f != x.f)
}

// bars reports whether the lock forbids an operation.
func (h *heldLock) bars(o *operation) bool {
	if o.size() == 0 || !h.meets(lwio.Range{Off: uint64(o.off), Len: uint64(o.size())}) {
		return false
	}
	if o.write && h.mode == lwio.LockShared {
		return true
	}
	return h.mode == lwio.LockExclusive && h.f != o.f
}

// lockedFor reports whether a lock conflicts for certain, and whether one may.
func (w *world) lockedFor(inTheWay func(h *heldLock) bool) (surely, perhaps bool) {
	for i := range w.locks {
		if h := &w.locks[i]; inTheWay(h) {
			surely, perhaps = surely || h.sure, true
		}
	}
	return surely, perhaps
}

// drawLock draws a lock that a client wants.
func (w *world) drawLock(rt *rapid.T) heldLock {
	offs := rapid.OneOf(rapid.Uint64Range(0, 5000), rapid.Uint64Range(0, farthest))
	k := w.some(rt)
	return heldLock{
		k: k, f: k.f, sure: true, mode: rapid.SampledFrom([]lwio.LockMode{lwio.LockExclusive, lwio.LockShared}).Draw(rt, "mode"),
		r: lwio.Range{Off: offs.Draw(rt, "offset"), Len: rapid.Uint64Range(1, 3000).Draw(rt, "bytes")},
	}
}

// lockPatience draws the time after which a caller gives up.
func (w *world) lockPatience(rt *rapid.T) patience {
	if rapid.IntRange(0, 4).Draw(rt, "leaves") < 4 {
		return patience{}
	}
	return w.patience(rt, "at a time")
}

// lockCall makes a call about locks and reports whether its outcome is unknown.
func (w *world) lockCall(rt *rapid.T, x heldLock, p patience, name string, call func(ctx context.Context) error) (unknown bool, err error) {
	ctx, cancel := w.start(p)
	defer cancel()
	x.k.before = x.k.c.Stats().Lost
	err = call(ctx)
	x.k.lost = x.k.c.Stats().Lost
	w.logf(rt, "%s: %s %+v: %v", x.k, name, x.r, err)
	return err != nil && (w.impatient || errors.Is(err, context.Canceled) && ctx.Err() != nil), err
}

// tryLock locks a range that is free.
func (w *world) tryLock(rt *rapid.T) {
	x := w.drawLock(rt)
	surely, perhaps := w.lockedFor(func(h *heldLock) bool { return h.denies(x) })
	unknown, err := w.lockCall(rt, x, w.lockPatience(rt), "try to lock", func(ctx context.Context) error { return x.f.TryLock(ctx, x.r, x.mode) })
	switch locked := errors.Is(err, lwio.ErrLocked); {
	case err == nil && surely, locked && !perhaps, err != nil && !locked && !unknown:
		w.fatalf(rt, "there is no reason for that: locked %v, or perhaps %v", surely, perhaps)
	case !locked:
		x.sure = err == nil
		w.locks = append(w.locks, x)
	}
}

// waitForLock waits for a lock while the conflicting locks are unlocked.
func (w *world) waitForLock(rt *rapid.T) {
	x := w.drawLock(rt)
	if surely, perhaps := w.lockedFor(func(h *heldLock) bool { return h.denies(x) && (!h.sure || h.f != h.k.f) }); surely || perhaps {
		return // it may have to wait for good
	}
	done := make(chan error, 1)
	go func() { done <- x.f.Lock(context.Background(), x.r, x.mode) }()
	for {
		i := slices.IndexFunc(w.locks, func(h heldLock) bool { return h.sure && h.denies(x) })
		if i < 0 {
			break
		}
		w.unlock(rt, w.locks[i], patience{})
	}
	select {
	case err := <-done:
		w.logf(rt, "%s: lock %+v: %v", x.k, x.r, err)
		if x.sure = err == nil; err != nil && !w.impatient {
			w.fatalf(rt, "there is no reason for that")
		}
		w.locks = append(w.locks, x)
	case <-time.After(hang):
		w.fatalf(rt, "a lock without conflict is not granted")
	}
}

// unlockSome unlocks a range.
func (w *world) unlockSome(rt *rapid.T) {
	var mine []heldLock
	for _, h := range w.locks {
		if h.f == h.k.f {
			mine = append(mine, h)
		}
	}
	if len(mine) == 0 {
		return
	}
	w.unlock(rt, rapid.SampledFrom(mine).Draw(rt, "lock"), w.lockPatience(rt))
}

// unlock unlocks the range of a lock. All earlier writes of the file are over after that.
func (w *world) unlock(rt *rapid.T, x heldLock, p patience) {
	unknown, err := w.lockCall(rt, x, p, "unlock", func(ctx context.Context) error { return x.f.Unlock(ctx, x.r) })
	same := func(h heldLock) bool { return h.f == x.f && h.r == x.r }
	kind := func(mode lwio.LockMode, sure bool) int {
		return slices.IndexFunc(w.locks, func(h heldLock) bool { return same(h) && h.mode == mode && h.sure == sure })
	}
	switch {
	case err == nil:
		w.fenced(x.k)
		w.synced(x.f)
		w.unlocked(kind, same)
	case errors.Is(err, fs.ErrInvalid) && kind(lwio.LockExclusive, true) < 0 && kind(lwio.LockShared, true) < 0:
		w.locks = slices.DeleteFunc(w.locks, same)
	case unknown:
		w.unsure(same)
	default:
		w.fatalf(rt, "there is no reason for that: %v", err)
	}
}

// unlocked removes one of the locks of a range, an exclusive one first.
func (w *world) unlocked(kind func(mode lwio.LockMode, sure bool) int, same func(h heldLock) bool) {
	i := kind(lwio.LockExclusive, true)
	if i < 0 && kind(lwio.LockExclusive, false) >= 0 {
		w.unsure(same) // it was that, or a shared one
		return
	}
	for _, sure := range []bool{true, false} {
		if i < 0 {
			i = kind(lwio.LockShared, sure)
		}
	}
	w.locks = slices.Delete(w.locks, i, i+1)
}

// unsure notes that some locks may be held or not.
func (w *world) unsure(some func(h heldLock) bool) {
	for i := range w.locks {
		if some(w.locks[i]) {
			w.locks[i].sure = false
		}
	}
}

// lockless notes that a file was closed, so that the server has released its locks, or may still
// release them.
func (w *world) lockless(f *lwio.File, gone bool) {
	mine := func(h heldLock) bool { return h.f == f }
	if gone {
		w.locks = slices.DeleteFunc(w.locks, mine)
	}
	w.unsure(mine)
}

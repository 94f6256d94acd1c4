package vfs

import (
	"context"
	"slices"
	"sync/atomic"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
)

// lockQuota bounds the held and the waiting locks of an FS, and counts the waits.
type lockQuota struct {
	all              *account.Sum // held and waiting locks
	perFile, perOpen int

	waits  atomic.Int64  // present waits
	waited atomic.Uint64 // waits since the start
}

// openLocks are the byte-range locks of one open. Safe for concurrent use.
type openLocks struct {
	table *lockTable // of the file
	quota *lockQuota
	user  string
	// appends is the handle of an open that may only append, or nil.
	appends Handle

	count   int  // held and waiting locks; guarded by table.mu
	refused bool // the open is being closed and gets no more locks; guarded by table.mu
}

// lockWait is a queued lock request.
type lockWait struct {
	Lock
	owner *openLocks
	done  chan error // buffered, for the one result
}

// try takes all the locks, or none.
func (k *openLocks) try(locks []Lock) error {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	n := 0
	for ; n < len(locks) && err == nil; n++ {
		l := locks[n]
		if err = k.admitLocked(l.Range, n); err != nil {
			break
		}
		if t.conflictsLocked(k, l.Range, l.use()) {
			err = ntstatus.LockNotGranted
		}
	}
	if clash(locks[:n]) {
		err = ntstatus.LockNotGranted
	}
	if err != nil {
		k.uncountLocked(n)
		return err
	}
	t.addLocked(k, locks)
	return nil
}

// queue takes a lock and returns nil, or queues it.
func (k *openLocks) queue(l Lock) (*lockWait, error) {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := k.admitLocked(l.Range, 0); err != nil || t.grantLocked(k, l) {
		return nil, err
	}
	w := &lockWait{Lock: l, owner: k, done: make(chan error, 1)}
	t.waiting = append(t.waiting, w)
	k.quota.waited.Add(1)
	k.quota.waits.Add(1)
	return w, nil
}

// await waits for the result of a queued lock.
func (k *openLocks) await(ctx context.Context, w *lockWait) error {
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return <-w.done // the result arrived before the end of ctx
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	k.quota.waits.Add(-1)
	k.uncountLocked(1)
	return context.Cause(ctx)
}

// unlock releases a lock for each range, up to the first range without one.
func (k *openLocks) unlock(ranges []Range) error {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if i := slices.IndexFunc(ranges, func(r Range) bool { return !r.valid() }); i >= 0 {
		ranges, err = ranges[:i], ntstatus.InvalidLockRange
	}
	var n int
	freed := func(Range) bool { return true }
	switch len(ranges) {
	case 0:
	case 1:
		freed = ranges[0].overlaps
		if t.removeLocked(k, ranges[0]) {
			n = 1
		}
	default:
		n = t.removeAllLocked(k, ranges)
	}
	if n < len(ranges) {
		err = ntstatus.RangeNotLocked
	}
	if n > 0 {
		t.grantWaitingLocked(freed)
		k.uncountLocked(n)
	}
	return err
}

// allow reports whether no lock of the file conflicts with I/O of the open.
func (k *openLocks) allow(r Range, use lockUse) bool {
	return !k.table.any() || !k.table.conflicts(k, r, use)
}

// mayRead reports whether no lock of another open conflicts with a read of n bytes.
func (k *openLocks) mayRead(off int64, n int) bool {
	return n == 0 || k.allow(Range{uint64(off), uint64(n)}, toRead)
}

// mayWrite is mayRead for a write, which appends at the end of the file if the open may only append.
func (k *openLocks) mayWrite(off int64, n int) bool {
	if n == 0 || !k.table.any() {
		return true
	}
	if k.appends != nil {
		if info, err := k.appends.Stat(); err == nil {
			off = info.Size
		}
	}
	return k.allow(Range{uint64(off), uint64(n)}, toWrite)
}

// refuse ends the waits of the open. Later requests fail.
//
// Source: [MS-SMB2 3.3.5.10]
func (k *openLocks) refuse() {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	k.refused = true
	n := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(w *lockWait) bool {
		if w.owner == k {
			w.done <- ntstatus.RangeNotLocked
		}
		return w.owner == k
	})
	n -= len(t.waiting)
	k.quota.waits.Add(int64(-n))
	k.uncountLocked(n)
}

// release releases all locks of the open. It goes through the queue once, not once for each lock:
// there can be thousands of locks and of waiting requests.
func (k *openLocks) release() {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	all := func(Range) bool { return true }
	n := t.exclusive.removeFunc(k, all) + t.shared.removeFunc(k, all)
	if n == 0 {
		return
	}
	t.countLocked()
	t.grantWaitingLocked(all)
	k.uncountLocked(n)
}

// admitLocked checks a requested lock and counts it. others is the number of locks of the same
// request that were checked before.
func (k *openLocks) admitLocked(r Range, others int) error {
	switch {
	case k.refused:
		return ntstatus.FileClosed
	case !r.valid():
		return ntstatus.InvalidLockRange
	case k.count >= k.quota.perOpen:
		return because(ntstatus.InsufficientResources, "too many locks of one open")
	case k.table.lenLocked()+len(k.table.waiting)+others >= k.quota.perFile:
		return because(ntstatus.InsufficientResources, "too many locks of one file")
	case !k.quota.all.Take(k.user, 1, account.Last):
		return because(ntstatus.InsufficientResources, "too many locks")
	}
	k.count++
	return nil
}

// uncountLocked undoes the counting of n locks, which are not in the table any more.
func (k *openLocks) uncountLocked(n int) {
	k.table.trimLocked()
	k.count -= n
	k.quota.all.Give(k.user, int64(n), account.Last)
}

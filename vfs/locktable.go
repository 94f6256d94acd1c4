package vfs

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// lockTable is what is locked of a file, and who waits for what.
type lockTable struct {
	// held is len(list), for I/O that need not look further while it is 0.
	held atomic.Int64

	mu      sync.Mutex
	list    []heldLock  // by offset
	waiting []*LockWait // in the order in which they came
}

// heldLock is a lock that is held.
type heldLock struct {
	Lock
	open *Open
	// reach is the last byte of all locks up to this one.
	reach uint64
}

// bars reports whether l keeps open from locking, reading or writing where it is: a
// shared lock keeps everybody from writing, its owner too, and an exclusive one all
// others from everything. Over locks of its own an open may put shared ones only.
//
// Source: [MS-FSA 2.1.4.10], [MS-FSA 2.1.5.8]
func (l *heldLock) bars(open *Open, use lockUse) bool {
	switch use {
	case toWrite:
		return !l.Exclusive || l.open != open
	case toLockAlone:
		return true
	default:
		return l.Exclusive && l.open != open
	}
}

// lockUse is what a range is wanted for.
type lockUse uint8

const (
	toRead lockUse = iota // or to lock shared
	toWrite
	toLockAlone
)

// barredLocked reports whether a lock is in the way.
func (t *lockTable) barredLocked(open *Open, r Range, use lockUse) bool {
	last := r.last()
	i, _ := slices.BinarySearchFunc(t.list, last, func(l heldLock, last uint64) int {
		if l.Off <= last {
			return -1
		}
		return 1
	})
	for i--; i >= 0 && t.list[i].reach >= r.Off; i-- {
		if l := &t.list[i]; l.meets(r) && l.bars(open, use) {
			return true
		}
	}
	return false
}

// barred is barredLocked for I/O, which comes here only if there are locks.
func (t *lockTable) barred(open *Open, r Range, use lockUse) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.barredLocked(open, r, use)
}

// grantLocked makes open the owner of l, unless another lock is in the way.
func (t *lockTable) grantLocked(open *Open, l Lock) bool {
	if t.barredLocked(open, l.Range, l.use()) {
		return false
	}
	t.addLocked(open, []Lock{l})
	return true
}

// addLocked makes open the owner of locks that nothing is in the way of. It goes through the
// list once, for all of them.
func (t *lockTable) addLocked(open *Open, locks []Lock) {
	if !slices.IsSortedFunc(locks, lockOffsets) {
		locks = slices.SortedFunc(slices.Values(locks), lockOffsets)
	}
	old := len(t.list)
	t.list = slices.Grow(t.list, len(locks))[:old+len(locks)]
	from := old // of those that are to be moved
	for left := len(locks); left > 0; {
		if from > 0 && t.list[from-1].Off > locks[left-1].Off {
			from--
			t.list[from+left] = t.list[from]
			continue
		}
		left--
		t.list[from+left] = heldLock{Lock: locks[left], open: open}
	}
	t.changedLocked(from)
}

func lockOffsets(a, b Lock) int { return cmp.Compare(a.Off, b.Off) }

func byOffset(l heldLock, off uint64) int { return cmp.Compare(l.Off, off) }

// changedLocked brings what depends on the list from index i on up to date.
func (t *lockTable) changedLocked(i int) {
	reach := uint64(0)
	if i > 0 {
		reach = t.list[i-1].reach
	}
	for ; i < len(t.list); i++ {
		reach = max(reach, t.list[i].last())
		t.list[i].reach = reach
	}
	t.held.Store(int64(len(t.list)))
}

// takeLocked takes that lock of open out and reports whether there was one.
//
// Source: [MS-FSA 2.1.5.9]
func (t *lockTable) takeLocked(open *Open, l Lock) bool {
	i, _ := slices.BinarySearchFunc(t.list, l.Off, byOffset)
	for ; i < len(t.list) && t.list[i].Off == l.Off; i++ {
		if t.list[i].open == open && t.list[i].Lock == l {
			t.list = slices.Delete(t.list, i, i+1)
			t.changedLocked(i)
			return true
		}
	}
	return false
}

// wakeLocked grants what has become possible of what was asked for, in that order. What is
// free now is of use only to those who want a range for which freed is true.
func (t *lockTable) wakeLocked(freed func(Range) bool) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w *LockWait) bool {
		if !freed(w.Range) || !t.grantLocked(w.open, w.Lock) {
			return false
		}
		w.done <- nil
		w.open.fs.lockWaits.Add(-1)
		return true
	})
}

// dropWaits ends the waits of open, and lets it take no more locks.
//
// Source: [MS-SMB2 3.3.5.10]
func (t *lockTable) dropWaits(open *Open) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open.lockless = true
	n := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(w *LockWait) bool {
		if w.open == open {
			w.done <- ntstatus.RangeNotLocked
		}
		return w.open == open
	})
	open.fs.lockWaits.Add(int64(len(t.waiting) - n))
	open.uncountLocksLocked(n - len(t.waiting))
}

// dropLocks gives back what open holds. Who waits is looked at once, not once for each
// lock: there may be thousands of both.
func (t *lockTable) dropLocks(open *Open) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.list)
	t.list = slices.DeleteFunc(t.list, func(l heldLock) bool { return l.open == open })
	if n -= len(t.list); n == 0 {
		return
	}
	t.changedLocked(0)
	t.wakeLocked(func(Range) bool { return true })
	open.uncountLocksLocked(n)
}

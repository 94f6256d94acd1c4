package vfs

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// lockTable is the locks of a file, held and waited for.
type lockTable struct {
	// held is len(list), for I/O, which takes no mutex while it is 0.
	held atomic.Int64

	mu      sync.Mutex
	list    []heldLock  // by offset
	waiting []*lockWait // in the order of arrival
}

// any reports whether there are locks.
func (t *lockTable) any() bool { return t.held.Load() != 0 }

// heldLock is a lock that is held.
type heldLock struct {
	Lock
	owner *openLocks
	// reach is the last byte of all locks up to this one.
	reach uint64
}

// forbids reports whether l forbids owner to use a range that overlaps it: a shared lock
// forbids all opens to write, its owner included, and an exclusive one forbids the others
// everything. Over locks of its own an open may put shared ones only.
//
// Source: [MS-FSA 2.1.4.10], [MS-FSA 2.1.5.8]
func (l *heldLock) forbids(owner *openLocks, use lockUse) bool {
	switch use {
	case toWrite:
		return !l.Exclusive || l.owner != owner
	case toLockExclusive:
		return true
	default:
		return l.Exclusive && l.owner != owner
	}
}

// lockUse is the purpose for which a range is wanted.
type lockUse uint8

const (
	toRead lockUse = iota // or to lock shared
	toWrite
	toLockExclusive
)

// conflictsLocked reports whether a lock conflicts with a use of a range.
func (t *lockTable) conflictsLocked(owner *openLocks, r Range, use lockUse) bool {
	last := r.last()
	i, _ := slices.BinarySearchFunc(t.list, last, func(l heldLock, last uint64) int {
		if l.Off <= last {
			return -1
		}
		return 1
	})
	for i--; i >= 0 && t.list[i].reach >= r.Off; i-- {
		if l := &t.list[i]; l.overlaps(r) && l.forbids(owner, use) {
			return true
		}
	}
	return false
}

// conflicts is conflictsLocked, for I/O.
func (t *lockTable) conflicts(owner *openLocks, r Range, use lockUse) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conflictsLocked(owner, r, use)
}

// grantLocked makes owner the owner of l, unless another lock conflicts.
func (t *lockTable) grantLocked(owner *openLocks, l Lock) bool {
	if t.conflictsLocked(owner, l.Range, l.use()) {
		return false
	}
	t.addLocked(owner, []Lock{l})
	return true
}

// addLocked makes owner the owner of locks that conflict with none. It goes through the list
// once, for all of them.
func (t *lockTable) addLocked(owner *openLocks, locks []Lock) {
	if !slices.IsSortedFunc(locks, lockOffsets) {
		locks = slices.SortedFunc(slices.Values(locks), lockOffsets)
	}
	old := len(t.list)
	t.list = slices.Grow(t.list, len(locks))[:old+len(locks)]
	from := old // of the locks to be moved
	for left := len(locks); left > 0; {
		if from > 0 && t.list[from-1].Off > locks[left-1].Off {
			from--
			t.list[from+left] = t.list[from]
			continue
		}
		left--
		t.list[from+left] = heldLock{Lock: locks[left], owner: owner}
	}
	t.changedLocked(from)
}

func lockOffsets(a, b Lock) int { return cmp.Compare(a.Off, b.Off) }

func byOffset(l heldLock, off uint64) int { return cmp.Compare(l.Off, off) }

// changedLocked updates reach from index i on, and held.
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

// removeLocked removes a lock of owner and reports whether there was one.
//
// Source: [MS-FSA 2.1.5.9]
func (t *lockTable) removeLocked(owner *openLocks, l Lock) bool {
	i, _ := slices.BinarySearchFunc(t.list, l.Off, byOffset)
	for ; i < len(t.list) && t.list[i].Off == l.Off; i++ {
		if t.list[i].owner == owner && t.list[i].Lock == l {
			t.list = slices.Delete(t.list, i, i+1)
			t.changedLocked(i)
			return true
		}
	}
	return false
}

// grantWaitingLocked grants queued locks that no longer conflict, in their order. Only locks of
// a range for which freed is true can have become possible.
func (t *lockTable) grantWaitingLocked(freed func(Range) bool) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w *lockWait) bool {
		if !freed(w.Range) || !t.grantLocked(w.owner, w.Lock) {
			return false
		}
		w.done <- nil
		w.owner.quota.waits.Add(-1)
		return true
	})
}

// use is the purpose of the lock's range.
func (l Lock) use() lockUse {
	if l.Exclusive {
		return toLockExclusive
	}
	return toRead
}

// conflictsWith reports whether locks of the same open, which are not in the table yet, forbid
// l.
func (l Lock) conflictsWith(locks []Lock) bool {
	return l.Exclusive && slices.ContainsFunc(locks, func(m Lock) bool { return m.overlaps(l.Range) })
}

package vfs

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// lockTable holds the locks of a file and the requests that wait for one.
type lockTable struct {
	// held is len(list). I/O reads it and takes no mutex while it is 0.
	held atomic.Int64

	mu      sync.Mutex
	list    []heldLock  // by offset
	waiting []*lockWait // in the order of arrival
}

// any reports whether any lock is held.
func (t *lockTable) any() bool { return t.held.Load() != 0 }

// heldLock is a lock that is held.
type heldLock struct {
	Lock
	owner *openLocks
	// reach is the largest last byte of the locks up to this one.
	reach uint64
}

// forbids reports whether l forbids owner to use a range that overlaps it. A shared lock forbids all
// opens to write, including its owner. An exclusive lock forbids other opens every use. Over its
// own locks an open may put only shared ones.
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

// grantLocked gives l to owner, unless another lock conflicts.
func (t *lockTable) grantLocked(owner *openLocks, l Lock) bool {
	if t.conflictsLocked(owner, l.Range, l.use()) {
		return false
	}
	t.addLocked(owner, []Lock{l})
	return true
}

// addLocked gives locks to owner. Precondition: no lock conflicts with them. It goes through the list
// once for all of them.
func (t *lockTable) addLocked(owner *openLocks, locks []Lock) {
	if !slices.IsSortedFunc(locks, lockOffsets) {
		locks = slices.SortedFunc(slices.Values(locks), lockOffsets)
	}
	old := len(t.list)
	t.list = slices.Grow(t.list, len(locks))[:old+len(locks)]
	from := old // index of the first lock that moves
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

// changedLocked updates held, and reach from index i on.
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

// removeAllLocked removes a lock of owner for each range, up to the first range without one, and returns their number. An
// exclusive lock goes first. It goes through the list three times for all of them: there can be thousands.
//
// Source: [MS-FSA 2.1.5.9]
func (t *lockTable) removeAllLocked(owner *openLocks, ranges []Range) int {
	held := make(map[Range]int, len(ranges))
	for _, r := range ranges {
		held[r] = 0
	}
	for i := range t.list {
		if l := &t.list[i]; l.owner == owner {
			if n, ok := held[l.Range]; ok {
				held[l.Range] = n + 1
			}
		}
	}
	n := 0
	for n < len(ranges) && held[ranges[n]] > 0 {
		held[ranges[n]]--
		n++
	}
	clear(held)
	for _, r := range ranges[:n] {
		held[r]++ // to be removed
	}
	for _, exclusive := range []bool{true, false} {
		t.list = slices.DeleteFunc(t.list, func(l heldLock) bool {
			if l.owner != owner || l.Exclusive != exclusive || held[l.Range] == 0 {
				return false
			}
			held[l.Range]--
			return true
		})
	}
	t.changedLocked(0)
	return n
}

// grantWaitingLocked grants the queued locks that no longer conflict, in their order. It skips ranges
// for which freed returns false, because a lock there was not released.
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

// conflictsWith reports whether earlier locks of the same request forbid l.
func (l Lock) conflictsWith(locks []Lock) bool {
	return l.Exclusive && slices.ContainsFunc(locks, func(m Lock) bool { return m.overlaps(l.Range) })
}

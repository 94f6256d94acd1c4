package vfs

import (
	"slices"
	"sync"
	"sync/atomic"

	"lwio/internal/shrink"
)

// lockTable holds the locks of a file and the requests that wait for one.
type lockTable struct {
	// held is the number of locks. I/O reads it and takes no mutex while it is 0.
	held atomic.Int64

	mu        sync.Mutex
	shared    lockList
	exclusive lockList    // they overlap no lock of another owner, and no other exclusive one
	waiting   []*lockWait // in the order of arrival
}

// any reports whether any lock is held.
func (t *lockTable) any() bool { return t.held.Load() != 0 }

// lockUse is the purpose for which a range is wanted.
type lockUse uint8

const (
	toRead lockUse = iota // or to lock shared
	toWrite
	toLockExclusive
)

// conflictsLocked reports whether a lock conflicts with a use of a range by owner. A shared lock forbids all opens to
// write, including its owner. An exclusive lock forbids other opens every use. Over its own locks an open may put only
// shared ones.
//
// Source: [MS-FSA 2.1.4.10], [MS-FSA 2.1.5.8]
func (t *lockTable) conflictsLocked(owner *openLocks, r Range, use lockUse) bool {
	switch use {
	case toLockExclusive:
		return t.shared.meets(r) || t.exclusive.meets(r)
	case toWrite:
		return t.shared.meets(r) || t.exclusive.meetsOther(r, owner)
	default:
		return t.exclusive.meetsOther(r, owner)
	}
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
	t.list(l.Exclusive).add(owner, []Range{l.Range})
	t.countLocked()
	return true
}

// list returns the list of a kind of locks.
func (t *lockTable) list(exclusive bool) *lockList {
	if exclusive {
		return &t.exclusive
	}
	return &t.shared
}

// lenLocked returns the number of locks.
func (t *lockTable) lenLocked() int { return len(t.shared.held) + len(t.exclusive.held) }

// countLocked updates held.
func (t *lockTable) countLocked() { t.held.Store(int64(t.lenLocked())) }

// trimLocked gives unused memory back.
func (t *lockTable) trimLocked() {
	t.shared.trim()
	t.exclusive.trim()
	t.waiting = shrink.Slice(t.waiting)
}

// addLocked gives locks to owner. Precondition: no lock conflicts with them.
func (t *lockTable) addLocked(owner *openLocks, locks []Lock) {
	ranges := make([]Range, 0, len(locks))
	for _, exclusive := range []bool{true, false} {
		ranges = ranges[:0]
		for _, l := range locks {
			if l.Exclusive == exclusive {
				ranges = append(ranges, l.Range)
			}
		}
		t.list(exclusive).add(owner, ranges)
	}
	t.countLocked()
}

// removeLocked removes a lock of owner, an exclusive one first, and reports whether there was one.
//
// Source: [MS-FSA 2.1.5.9]
func (t *lockTable) removeLocked(owner *openLocks, r Range) bool {
	if !t.exclusive.remove(owner, r) && !t.shared.remove(owner, r) {
		return false
	}
	t.countLocked()
	return true
}

// removeAllLocked is removeLocked for each range, up to the first range without a lock, and returns their number. It
// goes through the lists twice for all of them: there can be thousands.
func (t *lockTable) removeAllLocked(owner *openLocks, ranges []Range) int {
	counts := make(map[Range]int, len(ranges))
	for _, r := range ranges {
		counts[r] = 0
	}
	t.shared.count(owner, counts)
	t.exclusive.count(owner, counts)
	n := 0
	for n < len(ranges) && counts[ranges[n]] > 0 {
		counts[ranges[n]]--
		n++
	}
	clear(counts)
	for _, r := range ranges[:n] {
		counts[r]++ // to be removed
	}
	gone := func(r Range) bool {
		if counts[r] == 0 {
			return false
		}
		counts[r]--
		return true
	}
	t.exclusive.removeFunc(owner, gone)
	t.shared.removeFunc(owner, gone)
	t.countLocked()
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

package vfs

import (
	"cmp"
	"slices"

	"lwio/internal/shrink"
)

// lockList is a list of held locks of one kind, shared or exclusive. A search takes a time proportional to the logarithm
// of their number. Precondition: lockTable.mu is held.
type lockList struct {
	// held is in the order of offset and length: a position is before the ranges that begin there.
	held []heldLock
}

// heldLock is a lock that is held.
type heldLock struct {
	Range
	owner *openLocks
	// reach is the largest end of the locks up to this one that can overlap a range: all but positions at
	// byte 0, which have no byte before them. reaches reports that there is one.
	reach   uint64
	reaches bool
	// run is the index of the first lock in a row of locks of the same owner up to this one.
	run int
}

// end returns the last byte of a range, and the byte before a position: a lock that begins before the end of a range
// overlaps it if its own end is not before the range.
func (r Range) end() uint64 {
	if r.Len == 0 {
		return r.Off - 1
	}
	return r.last()
}

func compareRanges(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len))
}

// before returns the number of locks that begin before the end of a range. The locks that overlap it are among them.
func (k *lockList) before(r Range) int {
	i, _ := slices.BinarySearchFunc(k.held, r, func(l heldLock, r Range) int {
		if l.Off < r.Off || r.Len > 0 && l.Off <= r.last() {
			return -1
		}
		return 1
	})
	return i
}

// meets reports whether a lock overlaps a range.
func (k *lockList) meets(r Range) bool {
	i := k.before(r)
	return i > 0 && k.held[i-1].reaches && k.held[i-1].reach >= r.Off
}

// meetsOther reports whether a lock of another owner overlaps a range. Precondition: the locks do not overlap each
// other, so those that overlap the range are in a row, which ends before the end of the range.
func (k *lockList) meetsOther(r Range, owner *openLocks) bool {
	i := k.before(r)
	if i == 0 || !k.held[i-1].overlaps(r) {
		return false
	}
	if k.held[i-1].owner != owner {
		return true
	}
	run := k.held[i-1].run
	return run > 0 && k.held[run-1].overlaps(r)
}

// add adds locks of an owner. It goes through the list once for all of them.
func (k *lockList) add(owner *openLocks, ranges []Range) {
	if len(ranges) == 0 {
		return
	}
	if !slices.IsSortedFunc(ranges, compareRanges) {
		ranges = slices.SortedFunc(slices.Values(ranges), compareRanges)
	}
	old := len(k.held)
	k.held = slices.Grow(k.held, len(ranges))[:old+len(ranges)]
	from := old // index of the first lock that moves
	for left := len(ranges); left > 0; {
		if from > 0 && compareRanges(k.held[from-1].Range, ranges[left-1]) > 0 {
			from--
			k.held[from+left] = k.held[from]
			continue
		}
		left--
		k.held[from+left] = heldLock{Range: ranges[left], owner: owner}
	}
	k.changed(from)
}

// remove removes a lock of owner with exactly that range, and reports whether there was one.
func (k *lockList) remove(owner *openLocks, r Range) bool {
	i, _ := slices.BinarySearchFunc(k.held, r, func(l heldLock, r Range) int { return compareRanges(l.Range, r) })
	for ; i < len(k.held) && k.held[i].Range == r; i++ {
		if k.held[i].owner == owner {
			k.held = slices.Delete(k.held, i, i+1)
			k.changed(i)
			return true
		}
	}
	return false
}

// removeFunc removes the locks of owner for which gone reports true, and returns their number.
func (k *lockList) removeFunc(owner *openLocks, gone func(Range) bool) int {
	n := len(k.held)
	k.held = slices.DeleteFunc(k.held, func(l heldLock) bool { return l.owner == owner && gone(l.Range) })
	if n -= len(k.held); n > 0 {
		k.changed(0)
	}
	return n
}

// count adds the locks of owner to the counts of their ranges. Ranges without a count are left out.
func (k *lockList) count(owner *openLocks, counts map[Range]int) {
	for i := range k.held {
		if l := &k.held[i]; l.owner == owner {
			if n, ok := counts[l.Range]; ok {
				counts[l.Range] = n + 1
			}
		}
	}
}

// changed updates reach and run from index i on.
func (k *lockList) changed(i int) {
	for ; i < len(k.held); i++ {
		l := &k.held[i]
		l.reach, l.reaches, l.run = 0, false, i
		if i > 0 {
			last := &k.held[i-1]
			l.reach, l.reaches = last.reach, last.reaches
			if last.owner == l.owner {
				l.run = last.run
			}
		}
		if l.Len > 0 || l.Off > 0 {
			l.reach, l.reaches = max(l.reach, l.end()), true
		}
	}
}

// trim gives unused memory back.
func (k *lockList) trim() { k.held = shrink.Slice(k.held) }

package vfs

import "slices"

// clash reports whether an exclusive lock of a request overlaps an earlier lock of the same request. The time is almost
// proportional to the number of locks: a client chooses them.
//
// Source: [MS-SMB2 3.3.5.14.2]
func clash(locks []Lock) bool {
	own, at := exclusiveOf(locks)
	for i := 1; i < len(own); i++ {
		if own[i-1].overlaps(own[i]) {
			return true
		}
	}
	if len(own) == 0 || len(own) == len(locks) {
		return false
	}
	later := newRemaining(len(own)) // the exclusive locks that come later in the request
	for i, l := range locks {
		switch p := at[i]; {
		case p >= 0:
			later.remove(p)
		case !l.Exclusive:
			first, _ := slices.BinarySearchFunc(own, l.Off, func(r Range, off uint64) int {
				if r.end() < off {
					return -1
				}
				return 1
			})
			if p := later.from(first); p < len(own) && own[p].overlaps(l.Range) {
				return true
			}
		}
	}
	return false
}

// exclusiveOf returns the ranges of the exclusive locks in their order, and for each lock its place there, or -1. A
// position at byte 0 overlaps nothing and is left out.
func exclusiveOf(locks []Lock) (own []Range, at []int) {
	at = make([]int, len(locks))
	var order []int
	for i, l := range locks {
		at[i] = -1
		if l.Exclusive && (l.Len > 0 || l.Off > 0) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return compareRanges(locks[i].Range, locks[j].Range) })
	for p, i := range order {
		own, at[i] = append(own, locks[i].Range), p
	}
	return own, at
}

// remaining is a set of the numbers below a bound, from which numbers are removed.
type remaining []int // for each number a number that is not above the next one of the set

func newRemaining(n int) remaining {
	s := make(remaining, n+1)
	for i := range s {
		s[i] = i
	}
	return s
}

// from returns the first number from i on; the bound if there is none.
func (s remaining) from(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

func (s remaining) remove(i int) { s[i] = i + 1 }

// Package segments measures and divides the scatter/gather lists of vectored reads and writes.
package segments

import "math/bits"

// The page sizes that a vectored request may have, in bytes.
//
// Source: [OP-83]
const (
	minPage = 512
	maxPage = 32 << 10
)

// Size returns the number of bytes of all segments.
func Size(segs [][]byte) (n int) {
	for _, p := range segs {
		n += len(p)
	}
	return n
}

// Part returns n bytes of the segments from byte at on. No returned segment is empty.
func Part(segs [][]byte, at, n int) (list [][]byte) {
	for _, s := range segs {
		skip := min(at, len(s))
		if s = s[skip:][:min(n, len(s)-skip)]; len(s) > 0 {
			list = append(list, s)
		}
		at, n = at-skip, n-len(s)
	}
	return list
}

// Fit returns the number of bytes, at most most, in the next count segments from byte at on. Empty
// segments do not count.
func Fit(segs [][]byte, at, count, most int) (n int) {
	for _, s := range segs {
		if n >= most || count == 0 {
			break
		}
		skip := min(at, len(s))
		at -= skip
		if len(s) > skip {
			n += len(s) - skip
			count--
		}
	}
	return min(n, most)
}

// Page returns the largest page size that divides all segments but the last, or 0 if there is none.
// Precondition: there is at least one segment.
//
// Source: [OP-83]
func Page(segs [][]byte) int {
	all := uint(maxPage)
	for _, s := range segs[:len(segs)-1] {
		all |= uint(len(s))
	}
	if page := 1 << bits.TrailingZeros(all); page >= minPage {
		return page
	}
	return 0
}

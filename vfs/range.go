package vfs

// Range is a range of bytes of a file: Len of them from Off on. It may reach beyond the
// end of the file, up to the byte 2^64-1. A range without bytes is a position between two
// bytes.
//
// Source: [MS-SMB2 2.2.26.1]
type Range struct{ Off, Len uint64 }

// valid reports whether the range ends at byte 2^64-1 at the latest.
func (r Range) valid() bool { return r.Len == 0 || r.last() >= r.Off }

// last returns the last byte, or Off for a range without bytes.
func (r Range) last() uint64 {
	if r.Len == 0 {
		return r.Off
	}
	return r.Off + (r.Len - 1)
}

// overlaps reports whether two ranges overlap: they have a byte in common, or one is a position
// inside the other. Two positions do not overlap.
//
// Source: [MS-FSA 2.1.4.10]
func (r Range) overlaps(s Range) bool {
	switch {
	case r.Len == 0 && s.Len == 0:
		return false
	case r.Len == 0:
		return s.Off < r.Off && r.Off <= s.last()
	case s.Len == 0:
		return r.Off < s.Off && s.Off <= r.last()
	}
	return r.Off <= s.last() && s.Off <= r.last()
}

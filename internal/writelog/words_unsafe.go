package writelog

import "unsafe"

// slotsOf returns the memory b, which is aligned to 8 bytes, as slots.
func slotsOf(b []byte) []slot {
	return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/slotSize)
}

// wordAt returns the word at an offset of b, both aligned to 8 bytes.
func wordAt(b []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(&b[off]))
}

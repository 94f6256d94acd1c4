package rdmatest

import "unsafe"

// word returns the aligned 8-byte word of mem at off, for sync/atomic. A []byte of more
// than a few bytes from make is aligned, and so is all memory of adapters.
func word(mem []byte, off int) *uint64 {
	p := unsafe.Pointer(&mem[off : off+8][0])
	if uintptr(p)%8 != 0 {
		panic("rdmatest: the memory is not aligned")
	}
	return (*uint64)(p)
}

package rdmatest

import "unsafe"

// word is the aligned 8-byte word of mem at off, for sync/atomic. A []byte from
// make of more than a few bytes, and all memory of adapters, is aligned so.
func word(mem []byte, off int) *uint64 {
	p := unsafe.Pointer(&mem[off : off+8][0])
	if uintptr(p)%8 != 0 {
		panic("rdmatest: the memory is not aligned")
	}
	return (*uint64)(p)
}

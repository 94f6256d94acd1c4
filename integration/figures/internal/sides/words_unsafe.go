package sides

import (
	"sync/atomic"
	"unsafe"
)

// wordAt is the 8-byte word at an offset, which is a multiple of 8, of memory that
// begins at such an address; another process may write it.
func wordAt(mem []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(pointerTo(mem[off : off+8]))
}

// pointerTo is where memory, which is not empty, begins.
func pointerTo(mem []byte) unsafe.Pointer { return unsafe.Pointer(&mem[0]) }

package fileio

import (
	"sync/atomic"
	"unsafe"
)

// wordOf is the first word of memory, which is aligned to 8.
func wordOf(b []byte) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b[:8])))
}

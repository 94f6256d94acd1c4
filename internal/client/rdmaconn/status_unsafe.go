package rdmaconn

import (
	"sync/atomic"
	"unsafe"
)

// wordsOf returns memory, which is aligned to 8, as words for atomic loads and stores.
//
// Source: [OP-89]
func wordsOf(b []byte) []atomic.Uint64 {
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

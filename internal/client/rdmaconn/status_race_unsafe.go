//go:build race

package rdmaconn

import (
	"sync/atomic"
	"unsafe"
)

// statusMemory returns the memory of the status blocks of a connection: on the heap, as the
// race detector sees no order in the atomic operations on other memory.
func statusMemory(b []byte) []byte {
	w := make([]atomic.Uint64, len(b)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}

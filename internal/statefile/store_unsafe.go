package statefile

import (
	"sync/atomic"
	"unsafe"
)

// store copies p to the beginning of m, which is aligned to 8 bytes. The first 8 bytes are stored after
// all others, at once.
func store(m, p []byte) {
	copy(m[frameCommit:], p[frameCommit:])
	first := *(*[frameCommit]byte)(p)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&m[0])), *(*uint64)(unsafe.Pointer(&first)))
}

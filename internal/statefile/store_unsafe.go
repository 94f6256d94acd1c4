package statefile

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// storeWord stores a number, in little-endian order, at the beginning of m, which is aligned to 8 bytes, at once.
func storeWord(m []byte, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	(*atomic.Uint64)(unsafe.Pointer(&m[0])).Store(*(*uint64)(unsafe.Pointer(&b)))
}

// store copies p to the beginning of m, which is aligned to 8 bytes. The first 8 bytes are stored after
// all others, at once.
func store(m, p []byte) {
	copy(m[frameCommit:], p[frameCommit:])
	first := *(*[frameCommit]byte)(p)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&m[0])), *(*uint64)(unsafe.Pointer(&first)))
}

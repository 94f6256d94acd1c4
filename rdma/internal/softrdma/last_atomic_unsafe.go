//go:build !amd64 || race

package softrdma

import (
	"sync/atomic"
	"unsafe"
)

// storeLast stores a word, aligned to 8, after all that was stored before.
func storeLast(p unsafe.Pointer, word uint64) { atomic.StoreUint64((*uint64)(p), word) }

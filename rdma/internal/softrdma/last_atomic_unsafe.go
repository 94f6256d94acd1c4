//go:build !amd64 || race

package softrdma

import (
	"sync/atomic"
	"unsafe"
)

// storeLast stores a word, aligned to 8, after all earlier stores.
func storeLast(p unsafe.Pointer, word uint64) { atomic.StoreUint64((*uint64)(p), word) }

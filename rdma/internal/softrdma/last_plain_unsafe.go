//go:build amd64 && !race

package softrdma

import "unsafe"

// storeLast stores a word, aligned to 8, after all that was stored before. On this
// architecture stores are seen in their order, and one of an aligned word at once: an
// atomic one would only hold the processor up until all of a copy that was not in its cache
// is there.
func storeLast(p unsafe.Pointer, word uint64) { *(*uint64)(p) = word }

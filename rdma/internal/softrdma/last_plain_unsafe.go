//go:build amd64 && !race

package softrdma

import "unsafe"

// storeLast stores a word, aligned to 8, after all earlier stores. On amd64 stores become
// visible in their order, and an aligned word becomes visible at once. An atomic store
// would only stall the processor until all of an uncached copy is written.
func storeLast(p unsafe.Pointer, word uint64) { *(*uint64)(p) = word }

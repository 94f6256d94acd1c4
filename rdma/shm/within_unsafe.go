//go:build linux

package shm

import "unsafe"

// within tells where in outer the bytes of inner begin, or -1 if they are not all
// in it.
func within(outer, inner []byte) int {
	o, i := uintptr(unsafe.Pointer(unsafe.SliceData(outer))), uintptr(unsafe.Pointer(unsafe.SliceData(inner)))
	if i < o || i-o > uintptr(len(outer)) || uintptr(len(inner)) > uintptr(len(outer))-(i-o) {
		return -1
	}
	return int(i - o)
}

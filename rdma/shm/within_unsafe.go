//go:build linux

package shm

import "unsafe"

// within is the offset of inner in outer, or -1 if not all of inner lies in it.
func within(outer, inner []byte) int {
	o, i := uintptr(unsafe.Pointer(unsafe.SliceData(outer))), uintptr(unsafe.Pointer(unsafe.SliceData(inner)))
	if i < o || i-o > uintptr(len(outer)) || uintptr(len(inner)) > uintptr(len(outer))-(i-o) {
		return -1
	}
	return int(i - o)
}

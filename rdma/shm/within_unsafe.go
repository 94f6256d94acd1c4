//go:build linux

package shm

import "unsafe"

// within returns the offset of inner in outer, or -1 if inner does not lie completely in
// outer.
func within(outer, inner []byte) int {
	o, i := uintptr(unsafe.Pointer(unsafe.SliceData(outer))), uintptr(unsafe.Pointer(unsafe.SliceData(inner)))
	if i < o || i-o > uintptr(len(outer)) || uintptr(len(inner)) > uintptr(len(outer))-(i-o) {
		return -1
	}
	return int(i - o)
}

package rdmaconn

import "unsafe"

// within returns the offset of p in b, or -1 if p is not a part of b.
func within(b, p []byte) int {
	if len(p) == 0 {
		return -1
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if at >= uintptr(len(b)) || len(p) > len(b)-int(at) {
		return -1
	}
	return int(at)
}

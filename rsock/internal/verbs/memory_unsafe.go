package verbs

import "unsafe"

// addressOf is where a buffer begins: it tells buffers apart, and is never turned
// back into a pointer.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

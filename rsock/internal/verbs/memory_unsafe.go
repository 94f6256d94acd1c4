package verbs

import "unsafe"

// addressOf returns the address of a buffer as an identifier. The address is never turned
// back into a pointer.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

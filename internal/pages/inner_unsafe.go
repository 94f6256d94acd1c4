package pages

import (
	"os"
	"unsafe"
)

// Inner is the part of b that is whole pages, or nil.
func Inner(b []byte) []byte {
	page := os.Getpagesize()
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(page))
	from := (page - at) % page
	if size := (len(b) - from) / page * page; size > 0 {
		return b[from : from+size]
	}
	return nil
}

package host

import (
	"os"
	"unsafe"
)

// WholePages is the part of b that consists of whole pages, or nil.
func WholePages(b []byte) []byte {
	page := os.Getpagesize()
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(page))
	from := (page - at) % page
	if size := (len(b) - from) / page * page; size > 0 {
		return b[from : from+size]
	}
	return nil
}

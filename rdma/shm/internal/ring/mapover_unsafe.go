//go:build linux

package ring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapOver maps a memory file over whole pages of another mapping.
func MapOver(fd int, pages []byte) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(pages)), uintptr(len(pages)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}

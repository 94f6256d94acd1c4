//go:build linux

package resident

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inMemory reports whether all pages of mapped memory are, of which there is one at least.
// The kernel says so too of files that this process may neither own nor write.
func inMemory(mem []byte) bool {
	page := os.Getpagesize()
	there := make([]byte, (len(mem)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		uintptr(unsafe.Pointer(unsafe.SliceData(there))))
	if errno != 0 {
		return false
	}
	for _, p := range there {
		if p&1 == 0 {
			return false
		}
	}
	return true
}

// lockOnFault locks mapped memory as Mlock does, but reads nothing: what is in memory is
// locked, and what comes is when it does.
func lockOnFault(mem []byte) error {
	const onFault = 1 // MLOCK_ONFAULT
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), onFault)
	if errno != 0 {
		return errno
	}
	return nil
}

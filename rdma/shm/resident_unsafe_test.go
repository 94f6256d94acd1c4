//go:build linux

package shm

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns the bytes of a shared mapping that have pages.
func resident(tb testing.TB, mem []byte) (n int) {
	tb.Helper()
	pages := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		tb.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p&1) * os.Getpagesize()
	}
	return n
}

//go:build linux

package shm

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// dropCache asks the system to drop the cached pages of a file.
func dropCache(tb testing.TB, f *os.File) {
	tb.Helper()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		tb.Log("the cache cannot be dropped:", err)
	}
}

//go:build unix

package pages

import "golang.org/x/sys/unix"

// Discard gives back the pages that are all within b, which is memory of the Go heap
// without pointers, or private mapped memory. What is in them then is undefined: on Linux
// they are zero. A page comes back with its next use. The caller sees to it that nobody
// uses b meanwhile, nor a device that reaches it by other addresses than the process.
// It is a wish: where the system does not want to, nothing happens.
func Discard(b []byte) {
	if b = Inner(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

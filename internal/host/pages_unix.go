//go:build unix

package host

import "golang.org/x/sys/unix"

// DiscardPages returns the whole pages within b to the system. b is memory of the Go heap
// without pointers, or private mapped memory; its addresses stay valid. The content of the
// pages is undefined afterwards (zero on Linux), and the next access allocates a page anew.
// Nothing may access b meanwhile, in particular no device that reaches it by other addresses
// than the process. It is a hint: the system may ignore it.
func DiscardPages(b []byte) {
	if b = WholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

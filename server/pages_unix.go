//go:build unix

package server

import "golang.org/x/sys/unix"

// mapPages returns zeroed memory whose pages are committed when they are used.
func mapPages(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapPages(b []byte) error { return unix.Munmap(b) }

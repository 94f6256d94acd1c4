//go:build unix

package server

import "golang.org/x/sys/unix"

// mapPages gives zeroed memory that takes no room until it is used.
func mapPages(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapPages(b []byte) error { return unix.Munmap(b) }

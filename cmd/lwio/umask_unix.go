//go:build unix

package main

import (
	"io/fs"
	"sync"
	"syscall"
)

// umask returns the process's file mode creation mask, which can only be read by
// setting it; it is read once.
var umask = sync.OnceValue(func() fs.FileMode {
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return fs.FileMode(m)
})

// withUmask calls do while all files of the process are created without the permissions of mask.
func withUmask(mask fs.FileMode, do func()) {
	old := syscall.Umask(int(mask))
	defer syscall.Umask(old)
	do()
}

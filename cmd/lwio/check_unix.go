//go:build unix

package main

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// checkWritable returns an error for a file or a directory that this process may not write.
func checkWritable(name string) error {
	if err := unix.Access(name, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

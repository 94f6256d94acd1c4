//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkPrivate returns an error for a directory that users other than that of this process may read or change.
func checkPrivate(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.ErrUnsupported
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, and this process is of user %d", st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("has mode %#o: other users may read or change it; run 'chmod 700' on it", info.Mode().Perm())
	}
	return nil
}

// checkWritable returns an error for a file or a directory that this process may not write.
func checkWritable(name string) error {
	if err := unix.Access(name, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

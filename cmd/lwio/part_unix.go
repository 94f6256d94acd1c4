//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// openPartFlags keep the open of a part from following a link, and from waiting for a named pipe.
const openPartFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isOwnPart reports whether a file is one that only this user has made: a part has a name that others can know.
func isOwnPart(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode().IsRegular() && fi.Mode().Perm()&0o022 == 0 && int(st.Uid) == os.Geteuid() && st.Nlink == 1
}

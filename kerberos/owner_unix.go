//go:build unix

package kerberos

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openNonblock keeps the open of a named pipe from waiting.
const openNonblock = syscall.O_NONBLOCK

// checkOwner refuses a file that a user other than this one and root can have written. Users of the host can make files
// in the directory of the caches, with the name that a cache of this user has by default.
func checkOwner(info fs.FileInfo) error { return checkOwnerFor(info, os.Geteuid()) }

func checkOwnerFor(info fs.FileInfo, uid int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a file: %w", fs.ErrPermission)
	case !ok || st.Uid != 0 && int(st.Uid) != uid:
		return fmt.Errorf("another user owns it: %w", fs.ErrPermission)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("mode %#o, other users may change it: %w", info.Mode().Perm(), fs.ErrPermission)
	}
	return nil
}

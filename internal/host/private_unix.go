//go:build unix

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// CheckPrivate checks that only the user of this process may read and change a directory, which info describes. On
// systems without such modes it checks nothing.
//
// Errors: fs.ErrPermission with the cause; errors.ErrUnsupported if info is not of a file of the system.
func CheckPrivate(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.ErrUnsupported
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to user %d, and this process is of user %d", fs.ErrPermission, st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: it has mode %#o, other users may read or change it; run 'chmod 700' on it", fs.ErrPermission, info.Mode().Perm())
	}
	return nil
}

package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkPrivate returns an error for a directory that users other than that of this process may read
// or change.
func checkPrivate(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.ErrUnsupported
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to user %d", fs.ErrPermission, st.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: other users may read or change it (mode %04o, not 0700)", fs.ErrPermission, info.Mode().Perm())
	}
	return nil
}

// lockFile locks f until it is closed.
//
// Errors: ErrInUse.
func lockFile(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); {
			failed = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
		}
	})
	if err == nil {
		err = failed
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// hostBootID returns the number of this run of the host's kernel.
func hostBootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

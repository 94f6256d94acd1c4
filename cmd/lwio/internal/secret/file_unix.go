//go:build unix

package secret

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks the file itself, which other users cannot open: each user that can open a file, or its directory, can hold
// its lock for ever. A change replaces the file, so the lock counts only while the file has its name.
func lock(name string) (unlock func(), err error) {
	for {
		f, made, err := openToLock(name)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: name, Err: err}
		}
		if isStill(f, name) {
			return func() {
				if info, err := f.Stat(); made && err == nil && info.Size() == 0 && isStill(f, name) {
					_ = os.Remove(name) // it was made for the lock only
				}
				f.Close()
			}, nil
		}
		f.Close()
	}
}

// openToLock opens a file, or makes an empty one.
func openToLock(name string) (f *os.File, made bool, err error) {
	for {
		if f, err = os.Open(name); !errors.Is(err, os.ErrNotExist) {
			return f, false, err
		}
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, os.ErrExist) {
			return f, true, err
		}
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			if _, err := os.Lstat(name); err == nil {
				return nil, false, &os.PathError{Op: "open", Path: name, Err: errors.New("a link to a file that does not exist")}
			}
		}
	}
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isStill reports whether a file has a name.
func isStill(f *os.File, name string) bool {
	mine, err := f.Stat()
	there, e := os.Stat(name)
	return err == nil && e == nil && os.SameFile(mine, there)
}

// keepOwner gives f the owner and the group of the file that it replaces, if there is one. A server
// that does not run as root can still read the file after a change by root.
func keepOwner(f *os.File, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // there is no such file
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// syncDir makes a rename in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

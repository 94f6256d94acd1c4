//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Small files are read and written by plain system calls: package os offers each file to the poller, which has no use
// for regular files, and its temporary files need another call for their mode.

// interruptible repeats a system call that a signal has interrupted.
func interruptible[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != syscall.EINTR { //nolint:errorlint // system calls return the number itself
			return v, err
		}
	}
}

// statLocal describes the file behind a name.
func statLocal(name string) (st syscall.Stat_t, err error) {
	_, err = interruptible(func() (struct{}, error) { return struct{}{}, syscall.Stat(name, &st) })
	return st, err
}

// openLocal opens a file. A named pipe does not wait for its other side.
func openLocal(name string, flags int, mode fs.FileMode) (fd int, err error) {
	return interruptible(func() (int, error) {
		return syscall.Open(name, flags|syscall.O_CLOEXEC|syscall.O_NONBLOCK, uint32(mode))
	})
}

func isRegular(st *syscall.Stat_t) bool { return st.Mode&syscall.S_IFMT == syscall.S_IFREG }

// ReadSmall reads a regular file. It leaves a file without a size, as in /proc, to Open.
func (localTree) ReadSmall(_ context.Context, name string, p []byte) (n int, whole bool, err error) {
	fd, err := openLocal(name, syscall.O_RDONLY, 0)
	if err != nil {
		return 0, false, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = syscall.Close(fd) }() // it was only read
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return 0, false, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	switch {
	case !isRegular(&st):
		return 0, false, &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	case st.Size == 0 || st.Size >= int64(len(p)):
		return 0, false, nil
	}
	for int64(n) < st.Size {
		m, err := interruptible(func() (int, error) { return syscall.Read(fd, p[n:]) })
		if err != nil {
			return n, false, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n += m; m == 0 || n == len(p) {
			break
		}
	}
	return n, n < len(p), nil
}

// WriteSmall writes a temporary file and renames it. The file has the mode of the file that it replaces, or of a new one.
func (t localTree) WriteSmall(ctx context.Context, name string, data []byte, a *attributes) error {
	st, err := statLocal(name)
	replaces := err == nil
	mode := newFileMode
	switch {
	case replaces && !isRegular(&st):
		return &fs.PathError{Op: "create", Path: name, Err: errInTheWay}
	case replaces:
		mode = 0o600
	}
	temporary := filepath.Join(filepath.Dir(name), ".lwio-"+rand.Text()+".part")
	fd, err := openLocal(temporary, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, mode)
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: err}
	}
	err = writeLocal(fd, data)
	if err == nil && replaces {
		_, err = interruptible(func() (struct{}, error) { return struct{}{}, syscall.Fchmod(fd, uint32(st.Mode&0o777)) })
	}
	if e := syscall.Close(fd); err == nil && !errors.Is(e, syscall.EINTR) { // which has closed it
		err = e
	}
	if err == nil && a != nil {
		err = t.Keep(ctx, temporary, *a)
	}
	if err == nil {
		_, err = interruptible(func() (struct{}, error) { return struct{}{}, syscall.Rename(temporary, name) })
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) { // of the temporary name, which the user does not know
			err = pe.Err
		}
		return errors.Join(&fs.PathError{Op: "write", Path: name, Err: err}, os.Remove(temporary))
	}
	return nil
}

// writeLocal writes all of data to a file.
func writeLocal(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := interruptible(func() (int, error) { return syscall.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

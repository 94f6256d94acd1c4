package writelog

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// create makes a file of zeros with all its space reserved, and maps it.
func create(name string, size int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return nil, err
	}
	err = reserve(f, size)
	var m []byte
	if err == nil {
		m, err = mapFile(f, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	return m, nil
}

// reserve reserves the space by fallocate, or by writing zeros if the file system has no fallocate.
func reserve(f *os.File, size int) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(size))
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.Write(make([]byte, size))
	}
	if err != nil {
		return &fs.PathError{Op: "reserve space", Path: f.Name(), Err: err}
	}
	return nil
}

// open maps a file of that size.
func open(name string, size int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	m, err := mapFile(f, size)
	return m, errors.Join(err, f.Close())
}

// mapFile maps a file, which may be closed then.
func mapFile(f *os.File, size int) ([]byte, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, &fs.PathError{Op: "map", Path: f.Name(), Err: err}
	}
	return m, nil
}

func unmap(m []byte) error { return unix.Munmap(m) }

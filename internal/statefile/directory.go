package statefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lwio/internal/host"
)

// directory is the directory of a log. Tests replace it, to make it fail or stop.
type directory interface {
	// path returns the path of a file, for an error.
	path(name string) string
	// list returns the names of the files.
	list() ([]string, error)
	// create makes a new file and open opens a file, for reading and writing.
	create(name string) (file, error)
	open(name string) (file, error)
	remove(name string) error
	// store makes a file with that content, on stable storage, in place of one of that name.
	store(name string, content []byte) error
	// load returns the content of a small file.
	load(name string) ([]byte, error)
	close() error
}

// file is a file of the directory.
type file interface {
	io.ReaderAt
	io.Closer
	Name() string
	size() (int64, error)
	// truncate removes the bytes behind size.
	truncate(size int64) error
	// reserve extends the file with zeros from the offset from up to the offset to, for which the
	// file system reserves the space.
	reserve(from, to int64) error
	// commit writes p at off, which is a multiple of 8, into reserved space. The first 8 bytes are
	// stored after all others, at once.
	commit(p []byte, off int64) error
	// mark stores the mark of the header, at once.
	mark(end int64) error
}

// osDirectory is a directory of the host.
type osDirectory struct {
	root *os.Root
	lock *os.File // holds the lock of the directory
}

const (
	lockName = "lock"
	newName  = "new" // of a file that store writes

	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// openDirectory makes or opens the directory path, and locks it.
func openDirectory(path string) (*osDirectory, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &osDirectory{root: root}
	if err := d.guard(path); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// guard checks the permissions of the directory and locks it.
func (d *osDirectory) guard(path string) error {
	info, err := d.root.Stat(".")
	if err != nil {
		return err
	}
	if err := host.CheckPrivate(info); err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, fileMode); err != nil {
		return err
	}
	if err := lockFile(d.lock); err != nil {
		return &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return nil
}

func (d *osDirectory) close() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, d.root.Close())
}

func (d *osDirectory) path(name string) string { return filepath.Join(d.root.Name(), name) }

func (d *osDirectory) list() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *osDirectory) create(name string) (file, error) {
	return d.openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (d *osDirectory) open(name string) (file, error) { return d.openFile(name, os.O_RDWR) }

func (d *osDirectory) openFile(name string, flags int) (file, error) {
	f, err := d.root.OpenFile(name, flags, fileMode)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (d *osDirectory) remove(name string) error { return d.root.Remove(name) }

func (d *osDirectory) load(name string) ([]byte, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}

func (d *osDirectory) store(name string, content []byte) error {
	f, err := d.root.OpenFile(newName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.root.Rename(newName, name); err != nil {
		return err
	}
	here, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(here.Sync(), here.Close())
}

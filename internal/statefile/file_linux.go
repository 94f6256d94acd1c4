package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// osFile is a file of the host. The end of it and its header are mapped, so that a frame costs no system call.
type osFile struct {
	*os.File
	mapped []byte
	base   int64  // of mapped in the file
	header []byte // the mapped header; nil before the first mark
}

func (f *osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) truncate(size int64) error { return errors.Join(f.unmap(), f.Truncate(size)) }

// Close closes the file.
func (f *osFile) Close() error {
	return errors.Join(f.unmap(), f.release(&f.header), f.File.Close())
}

func (f *osFile) unmap() error { return f.release(&f.mapped) }

// release unmaps memory.
func (f *osFile) release(mapped *[]byte) error {
	m := *mapped
	if *mapped = nil; m == nil {
		return nil
	}
	return f.fail("unmap", unix.Munmap(m))
}

func (f *osFile) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}

// reserve reserves the space by fallocate, or by writing zeros if the file system has no fallocate, and
// maps the end of the file.
func (f *osFile) reserve(from, to int64) error {
	fd := int(f.Fd())
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(fd, 0, from, to-from)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.WriteAt(make([]byte, to-from), from)
	}
	if err != nil {
		return f.fail("reserve space", err)
	}
	return f.remap(from, to)
}

// remap maps the bytes up to an offset, from the page of another offset on.
func (f *osFile) remap(from, to int64) error {
	if err := f.unmap(); err != nil {
		return err
	}
	base := from &^ int64(os.Getpagesize()-1)
	m, err := f.mmap(base, to)
	if err == nil {
		f.mapped, f.base = m, base
	}
	return err
}

// mmap maps the bytes between two offsets. The first one is the begin of a page.
func (f *osFile) mmap(from, to int64) ([]byte, error) {
	m, err := unix.Mmap(int(f.Fd()), from, int(to-from), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return m, f.fail("map", err)
}

// errFault is the error of a store into mapped memory that the kernel refuses.
var errFault = fmt.Errorf("%w: the file system refuses the store", unix.EIO)

// commit stores p into the mapped memory.
func (f *osFile) commit(p []byte, off int64) error {
	if off < f.base || off+int64(len(p)) > f.base+int64(len(f.mapped)) {
		if err := f.remap(off, off+int64(len(p))); err != nil {
			return err
		}
	}
	return f.try(func() { store(f.mapped[off-f.base:], p) })
}

// mark stores the mark into the mapped header.
func (f *osFile) mark(end int64) (err error) {
	if f.header == nil {
		if f.header, err = f.mmap(0, fileHeader); err != nil {
			return err
		}
	}
	return f.try(func() { storeWord(f.header[markOffset:], uint64(end)) })
}

// try runs a store into mapped memory. A failure of the file system, which comes as a signal of this thread, is an
// error.
func (f *osFile) try(store func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if recover() != nil {
			err = f.fail("write", errFault)
		}
	}()
	store()
	return nil
}

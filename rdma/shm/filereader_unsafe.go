//go:build linux

package shm

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shortRead is the largest read of cached pages, in bytes, that bypasses the Go
// scheduler. To enter and leave the scheduler costs as much as the copy of a small page.
// During a call of more than 20 us the scheduler also takes the processor away, each
// time.
const shortRead = 1 << 20

// fileReader reads files with one system call at a time. It belongs to the goroutine that
// has the right to send.
type fileReader struct {
	iov  unix.Iovec
	off  int64
	wait bool
	way  uintptr // flags of preadv2
	n    int
	err  syscall.Errno
	fn   func(fd uintptr)
}

func (r *fileReader) init() { r.fn = r.do }

// do makes the call. The vector is a part of r, which does not move.
func (r *fileReader) do(fd uintptr) {
	call := syscall.Syscall6
	if !r.wait && r.iov.Len <= shortRead {
		call = syscall.RawSyscall6
	}
	for {
		n, _, err := call(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&r.iov)), 1, uintptr(r.off), 0, r.way)
		if r.n, r.err = int(n), err; err != unix.EINTR {
			return
		}
	}
}

// read reads up to len(dst) bytes, at least one, from an offset of a file, and returns
// their number. It may wait for a disk only with wait set. Precondition: the caller holds
// the file's lock.
//
// Errors: errWouldBlock; unix.Errno; the error of a closed file.
func (r *fileReader) read(f *fileSource, dst []byte, off int64, wait bool) (int, error) {
	r.prepare(f, dst, off, wait)
	if err := f.Raw.Control(r.fn); err != nil {
		r.iov.Base = nil
		return 0, err
	}
	return r.outcome()
}

// readAll reads without waiting, for a caller that has the descriptor of the file. It
// reports whether it filled dst.
func (r *fileReader) readAll(fd uintptr, f *fileSource, dst []byte, off int64) bool {
	r.prepare(f, dst, off, false)
	r.fn(fd)
	n, err := r.outcome()
	return err == nil && n == len(dst)
}

// prepare sets up the next call.
func (r *fileReader) prepare(f *fileSource, dst []byte, off int64, wait bool) {
	r.iov.Base, r.off, r.wait, r.way = unsafe.SliceData(dst), off, wait, 0
	r.iov.SetLen(len(dst))
	if !wait && !f.cached {
		r.way = unix.RWF_NOWAIT
	}
}

// outcome returns the result of the call.
func (r *fileReader) outcome() (int, error) {
	r.iov.Base = nil
	switch {
	case r.err == 0:
		return r.n, nil
	case r.way != 0 && (r.err == unix.EAGAIN || r.err == unix.EOPNOTSUPP):
		return 0, errWouldBlock
	}
	return 0, r.err
}

//go:build linux

package posix

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorPieces is the number of pieces of memory in one system call.
const vectorPieces = 64

// vector is the argument of the system call; package unix would allocate one for each call.
type vector struct {
	iov [vectorPieces]unix.Iovec
}

var vectors = sync.Pool{New: func() any { return new(vector) }}

// write writes the first pieces, none of them empty, at an offset of a file, with flags of RWF_
// or none, and returns the number of written bytes.
func (v *vector) write(fd int, pieces [][]byte, off int64, flags int) (int, error) {
	pieces = pieces[:min(len(pieces), vectorPieces)]
	for i, p := range pieces {
		v.iov[i].Base = unsafe.SliceData(p)
		v.iov[i].SetLen(len(p))
	}
	defer clear(v.iov[:len(pieces)])
	number := uintptr(unix.SYS_PWRITEV)
	if flags != 0 {
		number = unix.SYS_PWRITEV2
	}
	low, high := halves(off)
	n, _, errno := unix.Syscall6(number, uintptr(fd), uintptr(unsafe.Pointer(&v.iov)), uintptr(len(pieces)),
		low, high, uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// preadNowait reads from the page cache. It never waits, so it is a raw system call, which the
// scheduler does not notice.
func preadNowait(fd int, p []byte, off int64) (int, error) {
	iov := unix.Iovec{Base: unsafe.SliceData(p)}
	iov.SetLen(len(p))
	low, high := halves(off)
	n, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, low, high, unix.RWF_NOWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// halves splits an offset for the system calls.
func halves(off int64) (low, high uintptr) {
	const bits = 8 * unix.SizeofLong
	return uintptr(off), uintptr(uint64(off) >> (bits - 1) >> 1)
}

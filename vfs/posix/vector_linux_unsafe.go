//go:build linux

package posix

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectorPieces is how many pieces of memory one call of the system takes.
const vectorPieces = 64

// vector is what the system call takes: the standard one would be made anew for each.
type vector struct {
	iov [vectorPieces]unix.Iovec
}

var vectors = sync.Pool{New: func() any { return new(vector) }}

// write writes the first pieces, none of them empty, at a place in a file, with flags of
// RWF_ or none, and returns how many bytes that were.
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

// preadNowait reads from the page cache, and waits for nothing: so the scheduler is not told
// of the system call.
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

// halves is an offset as the system calls take it.
func halves(off int64) (low, high uintptr) {
	const bits = 8 * unix.SizeofLong
	return uintptr(off), uintptr(uint64(off) >> (bits - 1) >> 1)
}

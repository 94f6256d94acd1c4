//go:build linux

package iwarp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// preadCached reads the part of a file that is in memory. errNotCached means that the
// next byte is not in memory, or that the file system cannot tell. The call does not wait
// for a disk, and so bypasses the scheduler: see writeSocket.
func preadCached(fd int, buf []byte, off int64) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	iov := unix.Iovec{Base: unsafe.SliceData(buf)}
	iov.SetLen(len(buf))
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1,
			uintptr(off), uintptr(off>>32), unix.RWF_NOWAIT)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN, syscall.EOPNOTSUPP, syscall.ENOSYS:
			return 0, errNotCached
		default:
			return 0, errno
		}
	}
}

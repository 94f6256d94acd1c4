//go:build linux

package iwarp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vectors is the argument of the system call that writes a batch.
type vectors struct {
	iov  [batchParts]unix.Iovec
	used int
}

func (v *vectors) reset() {
	clear(v.iov[:v.used])
	v.used = 0
}

// segmentSize returns the size of a TCP segment, or 0 if it is unknown.
func segmentSize(raw syscall.RawConn) int {
	mss := 0
	_ = raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil {
			mss = v
		}
	})
	return mss
}

// writeSocket writes the rest of the batch with one system call. For a batch of one part
// it uses sendto, because the kernel's path is shorter. The call does not block, and so
// bypasses the Go scheduler like the whole data path. Entering and leaving the scheduler
// takes time, and wakes the runtime's monitor thread if the process has slept before.
func (b *batch) writeSocket(fd int) (int, error) {
	n := 0
	for i := b.first; i < len(b.parts); i++ {
		p := b.parts[i]
		if i == b.first {
			p = p[b.written:]
		}
		b.io.iov[n].Base = unsafe.SliceData(p)
		b.io.iov[n].SetLen(len(p))
		n++
	}
	b.io.used = max(b.io.used, n)
	raceRelease()
	for {
		var w uintptr
		var errno syscall.Errno
		if n == 1 {
			w, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(b.io.iov[0].Base)), uintptr(b.io.iov[0].Len), 0, 0, 0)
		} else {
			w, _, errno = syscall.RawSyscall(syscall.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&b.io.iov)), uintptr(n))
		}
		switch errno {
		case 0:
			return int(w), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, errno
		}
	}
}

// readSocket reads into a and then b with one system call. Either may be empty. there is
// false if there is no data. The call bypasses the scheduler: see writeSocket.
func readSocket(fd int, a, b []byte) (read int, there bool, err error) {
	iov := [2]unix.Iovec{{Base: unsafe.SliceData(a)}, {Base: unsafe.SliceData(b)}}
	iov[0].SetLen(len(a))
	iov[1].SetLen(len(b))
	for {
		var n uintptr
		var errno syscall.Errno
		if len(a) == 0 {
			n, _, errno = syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(iov[1].Base)), uintptr(len(b)), 0, 0, 0)
		} else {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 2)
		}
		switch errno {
		case 0:
			raceAcquire()
			return int(n), true, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, false, nil
		default:
			return 0, true, errno
		}
	}
}

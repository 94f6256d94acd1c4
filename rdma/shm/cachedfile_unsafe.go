//go:build linux

package shm

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// shortRead is up to how many bytes a read of cached pages counts as computing, which
// the scheduler need not know of: to tell it costs as much as the copy of a small page,
// and of a call of more than 20 us it takes the processor away, again and again.
const shortRead = 1 << 20

// cachedReader reads with one system call what is in the page cache; it belongs to
// who holds the baton.
type cachedReader struct {
	iov unix.Iovec
	off int64
	way uintptr // flags of preadv2
	n   int
	err syscall.Errno
	fn  func(fd uintptr)
}

func (r *cachedReader) init() { r.fn = r.do }

func (r *cachedReader) do(fd uintptr) {
	call := syscall.Syscall6
	if r.iov.Len <= shortRead {
		call = syscall.RawSyscall6
	}
	n, _, err := call(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&r.iov)), 1, uintptr(r.off), 0, r.way)
	r.n, r.err = int(n), err
}

// read fills dst from an offset of the file, all of it or not so that it counts.
func (r *cachedReader) read(f *fileSource, dst []byte, off int64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed.Load() {
		return false
	}
	r.iov.Base, r.off, r.way = unsafe.SliceData(dst), off, unix.RWF_NOWAIT
	r.iov.SetLen(len(dst))
	if f.cached {
		r.way = 0
	}
	for {
		err := f.raw.Control(r.fn)
		if err != nil || r.err == 0 {
			r.iov.Base = nil
			return err == nil && r.n == len(dst)
		}
		if !errors.Is(r.err, unix.EINTR) {
			r.iov.Base = nil
			return false
		}
	}
}

// placeFile puts a part of a file straight into its place: StatusDeviceBusy says that
// not all of it is in the page cache, StatusPending that the place cannot be reached
// now. The caller holds the baton of an empty queue.
func (t *sender) placeFile(r *rdma.Request, length int) rdma.Status {
	if length == 0 || !t.out.clear() {
		return rdma.StatusPending
	}
	dst := t.c.hold(r.Remote.Addr, uint32(r.Remote.Token), length, slotWrite)
	if dst == nil {
		return rdma.StatusPending
	}
	defer t.c.letGo()
	if !t.cached.read(r.File.(*fileSource), dst, r.FileOffset) {
		return rdma.StatusDeviceBusy
	}
	return rdma.StatusSuccess
}

//go:build linux

package shm

import (
	"errors"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// maxFDs is how many descriptors one message is given room for; the kernel
// closes what is more. None has as many.
const maxFDs = 5

// maxNotice is the size of the longest message of a connection.
const maxNotice = 64

// errAgain says that the socket has, or takes, nothing now.
var errAgain = errors.New("the socket would block")

// noticeReader receives the messages of a connection. The other side of the
// socket has flags of its own, so that nothing it does can make a read block.
type noticeReader struct {
	buf [maxNotice]byte
	oob [128]byte // room for maxFDs
	iov unix.Iovec
	hdr unix.Msghdr
	n   int
	fds []int
	err error
	fn  func(fd uintptr) bool
	now bool // do not wait
}

func (r *noticeReader) init() {
	r.fds = make([]int, 0, maxFDs)
	r.fn = r.attempt
}

// read waits for one message, or for the deadline of the socket. The descriptors
// that came with it are the caller's.
func (r *noticeReader) read(raw syscall.RawConn, wait bool) ([]byte, []int, error) {
	r.now = !wait
	if err := raw.Read(r.fn); err != nil {
		return nil, nil, err
	}
	return r.buf[:r.n], r.fds, r.err
}

func (r *noticeReader) attempt(fd uintptr) bool {
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(len(r.buf))
	r.hdr = unix.Msghdr{Iov: &r.iov, Control: &r.oob[0]}
	r.hdr.SetIovlen(1)
	r.hdr.SetControllen(unix.CmsgSpace(4 * maxFDs))
	r.fds, r.err, r.n = r.fds[:0], nil, 0
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.hdr)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			r.n = int(n)
			ring.RaceAcquire()
			r.descriptors()
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			r.err = errAgain
			return r.now
		default:
			r.err = errno
			return true
		}
	}
}

// descriptors takes them out of the control message.
func (r *noticeReader) descriptors() {
	if r.hdr.Controllen == 0 {
		return
	}
	msgs, err := unix.ParseSocketControlMessage(r.oob[:r.hdr.Controllen])
	if err != nil {
		r.err = err
		return
	}
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			r.fds = append(r.fds, fds...)
		}
	}
}

// waker wakes the peer.
type waker struct {
	fn       func(fd uintptr) // sends the message on the socket
	doorbell func()           // rings
}

func (w *waker) init(d *ring.Doorbell) {
	if d != nil {
		w.doorbell = d.Ring
	}
	msg := []byte{noticeWake}
	w.fn = func(fd uintptr) {
		ring.RaceRelease()
		// A socket that is full holds messages that wake as well, and one that
		// fails is noticed by its reader.
		_, _, _ = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&msg[0])), 1,
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	}
}

// sendNotice sends a message, perhaps with a descriptor (fd >= 0), without
// waiting.
func sendNotice(raw syscall.RawConn, msg []byte, fd int) error {
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	var err error
	if e := raw.Control(func(s uintptr) {
		ring.RaceRelease()
		err = unix.Sendmsg(int(s), msg, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}); e != nil {
		return e
	}
	return err
}

// peerUID asks the kernel who is at the other end.
func peerUID(nc *net.UnixConn) (uint32, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return cred.Uid, nil
}

//go:build linux

package shm

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// maxNotice is the size of the longest message of a connection.
const maxNotice = 64

// noticeReader receives the messages of a connection. The flags of the peer's socket are
// its own, so the peer cannot make a read block.
type noticeReader struct {
	buf [maxNotice]byte
	oob [24]byte // room for one descriptor
	due int      // descriptors of the message: 0 or 1
	iov unix.Iovec
	hdr unix.Msghdr
	n   int
	fds []int
	err error
	fn  func(fd uintptr) bool
}

func (r *noticeReader) init() {
	r.fds = make([]int, 0, 1)
	r.fn = r.attempt
}

// read waits for one message, or for the deadline of the socket. The caller owns the
// descriptor that comes with the message, if due is 1. The message is valid until the next
// call.
func (r *noticeReader) read(raw syscall.RawConn, due int) ([]byte, []int, error) {
	r.due = due
	if err := raw.Read(r.fn); err != nil {
		return nil, nil, err
	}
	return r.buf[:r.n], r.fds, r.err
}

func (r *noticeReader) attempt(fd uintptr) bool {
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(len(r.buf))
	r.hdr = unix.Msghdr{Iov: &r.iov}
	r.hdr.SetIovlen(1)
	if r.due > 0 {
		r.hdr.Control = &r.oob[0]
		r.hdr.SetControllen(unix.CmsgLen(4))
	}
	r.fds, r.err, r.n = r.fds[:0], nil, 0
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.hdr)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			r.n = int(n)
			ring.RaceAcquire()
			r.descriptors()
			if r.due > 0 && r.hdr.Flags&unix.MSG_CTRUNC != 0 {
				r.err = errNotice // it carries more
			}
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			r.err = errno
			return true
		}
	}
}

// descriptors takes the descriptors out of the control message.
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

// wakeNotifier returns a function that sends a wake-up message on a socket. Errors do not
// matter: a full socket holds messages that wake too, and the reader of a failed socket
// notices the failure.
func wakeNotifier() func(fd uintptr) {
	msg := []byte{noticeWake}
	return func(fd uintptr) {
		ring.RaceRelease()
		_, _, _ = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&msg[0])), 1,
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	}
}

// sendNotice sends a message without waiting, with a descriptor unless fd is negative.
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

// setRights sets whether the peer of a socket can send descriptors.
func setRights(raw syscall.RawConn, accept bool) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = ring.SetRights(int(fd), accept) }); e != nil {
		return e
	}
	return err
}

// denyRights keeps peers from sending descriptors to a socket that is being made.
func denyRights(_, _ string, raw syscall.RawConn) error { return setRights(raw, false) }

// acceptRights lets the peer send descriptors. The caller has checked the user of the peer.
func acceptRights(nc *net.UnixConn) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	return setRights(raw, true)
}

// peerUID returns the user of the process at the other end, as the kernel reports it.
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

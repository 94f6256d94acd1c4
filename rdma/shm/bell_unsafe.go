//go:build linux

package shm

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bell is one end of a pair of sockets on which the sides wake who waits in Notify
// for this connection alone. The bytes mean nothing, and only that one came does:
// the network poller tells of each, so that they are read only now and then. All
// system calls on it say that they do not wait, so that it does not matter what
// the peer does to the flags of the socket.
type bell struct {
	f    *os.File
	raw  syscall.RawConn
	rest *rest

	asked bool // the nap was asked for
	rang  bool // and a ring ended it
	rung  int  // since bytes were read
	fn    func(fd uintptr) bool
	empty func(fd uintptr)
	scrap [256]byte
}

// ringsPerRead is after how many wake-ups the bytes are read. A socket holds more.
const ringsPerRead = 32

// errBell says that the peer sent something else than an end of a pair of sockets.
var errBell = errors.New("the peer's bell is none")

// newBell makes a bell, and the descriptor of its other end.
func newBell() (b *bell, other int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, err
	}
	if b, err = openBell(fds[0]); err != nil {
		_ = unix.Close(fds[1])
		return nil, -1, err
	}
	return b, fds[1], nil
}

// openBell checks a descriptor, perhaps of a peer, and takes it over.
func openBell(fd int) (*bell, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err = errors.Join(err, err2); err == nil && (family != unix.AF_UNIX || kind != unix.SOCK_STREAM) {
		err = errBell
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, errors.Join(errBell, err)
	}
	b := &bell{f: os.NewFile(uintptr(fd), "bell")}
	if b.raw, err = b.f.SyscallConn(); err == nil {
		err = b.f.SetReadDeadline(time.Time{}) // the poller knows it
	}
	if err != nil {
		b.close()
		return nil, errors.Join(errBell, err)
	}
	return b, nil
}

func (b *bell) init(c *conn) {
	b.rest = &c.rest
	b.fn, b.empty = b.attempt, b.drain
}

func (b *bell) close() {
	if b != nil {
		_ = b.f.Close()
	}
}

// nap sleeps in the network poller until the peer rings, or poke.
func (b *bell) nap() {
	b.asked, b.rang = false, false
	err := b.raw.Read(b.fn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = b.f.SetReadDeadline(time.Time{})
	} else if err != nil {
		b.rest.broken = true
	}
	raceAcquire()
	if b.asked {
		b.rest.getUp()
	}
	if b.rung++; b.rung >= ringsPerRead {
		b.rung = 0
		_ = b.raw.Control(b.empty)
	}
}

// attempt is called when the poller begins to watch for a ring, and after one.
func (b *bell) attempt(uintptr) bool {
	if b.asked {
		b.rang = true
		return true
	}
	b.asked = true
	return !b.rest.lieDown()
}

// drain reads the bytes of many rings: once, which is enough for a peer that rings
// no more often than it must, and no other keeps the caller here.
func (b *bell) drain(fd uintptr) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b.scrap[0])), uintptr(len(b.scrap)), unix.MSG_DONTWAIT, 0, 0)
}

// poke ends a nap.
func (b *bell) poke() { _ = b.f.SetReadDeadline(longAgo) }

// futexWait blocks the thread while the word has the value, until it is woken.
func futexWait(word *atomic.Uint32, value uint32) {
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(value), 0, 0, 0)
}

// futexWake wakes all who sleep on the word.
func futexWake(word *atomic.Uint32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1<<30, 0, 0, 0)
}

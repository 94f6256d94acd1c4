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

// bell is how the sides wake who waits in Wait for this connection alone: two pairs of
// sockets, one for each direction. To ring is to shut down what an end sends, again and
// again: the kernel tells the pollers of that pair each time, whatever was before, and
// nothing is sent, kept or to be read. It never waits, so that it does not matter what
// the peer does to the flags of the sockets, or sends. There are two pairs as who watches
// the end that rings is told as well.
type bell struct {
	f    *os.File // where this side is rung
	raw  syscall.RawConn
	rope *os.File // with which it rings the peer
	pull syscall.RawConn
	rest *rest

	asked bool // the nap was asked for
	rang  bool // and a ring ended it
	fn    func(fd uintptr) bool
}

// Errors of bells.
var (
	// errBell says that the peer sent something else than an end of a pair of sockets.
	errBell = errors.New("the peer's bell is none")
	// errMute says that the kernel does not do what the bell needs.
	errMute = errors.New("the kernel tells nobody that a socket is shut down again")
)

// ringBell rings the bell of whose socket this is. It is a hint: nothing comes of a bell
// that is broken.
func ringBell(fd uintptr) {
	raceRelease()
	_, _, _ = syscall.RawSyscall(syscall.SYS_SHUTDOWN, fd, unix.SHUT_WR, 0)
}

// checkBells sees whether a poller hears each ring, once.
func checkBells(ring func(fd uintptr)) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer closeAll(fds[:])
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(poller)
	events := [1]unix.EpollEvent{{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET}}
	if err := unix.EpollCtl(poller, unix.EPOLL_CTL_ADD, fds[0], &events[0]); err != nil {
		return err
	}
	_, _ = unix.EpollWait(poller, events[:], 0) // it can be written
	for range 3 {
		ring(uintptr(fds[1]))
		for heard := 1; heard >= 0; heard-- {
			n, err := unix.EpollWait(poller, events[:], 0)
			if err != nil {
				return err
			}
			if n != heard {
				return errMute
			}
		}
	}
	return nil
}

// newBell makes a bell, and the descriptors of the peer's.
func newBell() (b *bell, peer []int, err error) {
	here, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	there, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		closeAll(here[:])
		return nil, nil, err
	}
	peer = []int{there[0], here[1]}
	if b, err = openBell(here[0], there[1]); err != nil {
		closeAll(peer)
		return nil, nil, err
	}
	return b, peer, nil
}

// openBell checks descriptors, perhaps of a peer, and takes them over: fd is where this
// side is rung, rope with which it rings.
func openBell(fd, rope int) (*bell, error) {
	err := errors.Join(isBell(fd), isBell(rope))
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		closeAll([]int{fd, rope})
		return nil, errors.Join(errBell, err)
	}
	b := &bell{f: os.NewFile(uintptr(fd), "bell"), rope: os.NewFile(uintptr(rope), "rope")}
	if b.raw, err = b.f.SyscallConn(); err == nil {
		b.pull, err = b.rope.SyscallConn()
	}
	if err == nil {
		err = b.f.SetReadDeadline(time.Time{}) // the poller knows it
	}
	if err != nil {
		b.close()
		return nil, errors.Join(errBell, err)
	}
	return b, nil
}

// isBell tells whether a descriptor is an end of a pair of sockets. To shut down one of
// another kind may take long.
func isBell(fd int) error {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err = errors.Join(err, err2); err == nil && (family != unix.AF_UNIX || kind != unix.SOCK_STREAM) {
		err = errBell
	}
	return err
}

func (b *bell) init(c *conn) {
	b.rest = &c.rest
	b.fn = b.attempt
}

func (b *bell) close() {
	if b != nil {
		_ = b.f.Close()
		_ = b.rope.Close()
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

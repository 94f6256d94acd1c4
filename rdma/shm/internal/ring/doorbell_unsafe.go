//go:build linux

package ring

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Doorbell lets the two sides wake each other in the network poller. It consists of two
// pairs of sockets, one for each direction. To ring is to shut down the sending side of a
// socket, repeatedly. The kernel notifies the pollers of the pair each time, in any state,
// and no byte is sent, stored or read. Ringing never waits, so the peer's flags on
// the sockets do not matter, and neither do bytes that the peer sends. Two pairs are
// needed because the kernel also notifies a poller of the ringing socket.
//
// One goroutine at a time calls Sleep. Any goroutine may call Ring and Interrupt.
type Doorbell struct {
	f    *os.File // this side sleeps on it
	raw  syscall.RawConn
	peer *os.File // this side rings it to wake the peer
	pull syscall.RawConn

	prepare  func() bool
	prepared bool
	rang     bool
	attempt  func(fd uintptr) bool
}

// Errors of doorbells.
var (
	// ErrDoorbell means that the peer did not send a socket of a pair.
	ErrDoorbell = errors.New("the peer's doorbell is not a pair of sockets")
	// ErrNoNotification means that the kernel lacks a property that doorbells need.
	ErrNoNotification = errors.New("the kernel does not report a repeated shutdown of a socket")
)

// ring shuts down a socket. It is best effort: a broken doorbell has no effect.
func ring(fd uintptr) {
	RaceRelease()
	_, _, _ = syscall.RawSyscall(syscall.SYS_SHUTDOWN, fd, unix.SHUT_WR, 0)
}

// CheckDoorbells checks that the kernel reports each ring to a poller exactly once.
//
// Errors: ErrNoNotification; unix.Errno.
func CheckDoorbells() error { return checkDoorbells(ring) }

func checkDoorbells(ring func(fd uintptr)) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer CloseAll(fds[:])
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(poller)
	events := [1]unix.EpollEvent{{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET}}
	if err := unix.EpollCtl(poller, unix.EPOLL_CTL_ADD, fds[0], &events[0]); err != nil {
		return err
	}
	_, _ = unix.EpollWait(poller, events[:], 0) // the socket is writable
	for range 3 {
		ring(uintptr(fds[1]))
		for reported := 1; reported >= 0; reported-- {
			n, err := unix.EpollWait(poller, events[:], 0)
			if err != nil {
				return err
			}
			if n != reported {
				return ErrNoNotification
			}
		}
	}
	return nil
}

// NewDoorbell makes a doorbell, and two descriptors for the peer's doorbell.
func NewDoorbell() (d *Doorbell, peer []int, err error) {
	here, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	there, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		CloseAll(here[:])
		return nil, nil, err
	}
	for _, fd := range append(here[:], there[:]...) {
		err = errors.Join(err, SetRights(fd, false))
	}
	if err != nil {
		CloseAll(here[:])
		CloseAll(there[:])
		return nil, nil, err
	}
	peer = []int{there[0], here[1]}
	if d, err = OpenDoorbell(here[0], there[1]); err != nil {
		CloseAll(peer)
		return nil, nil, err
	}
	return d, peer, nil
}

// OpenDoorbell makes a doorbell of two descriptors, and takes ownership of them. CheckSocket
// has accepted the descriptors. This side sleeps on the first and rings with the second.
//
// Errors: ErrDoorbell.
func OpenDoorbell(fd, ringer int) (*Doorbell, error) {
	err := unix.SetNonblock(fd, true)
	if err != nil {
		CloseAll([]int{fd, ringer})
		return nil, errors.Join(ErrDoorbell, err)
	}
	d := &Doorbell{f: os.NewFile(uintptr(fd), "doorbell"), peer: os.NewFile(uintptr(ringer), "ringer")}
	if d.raw, err = d.f.SyscallConn(); err == nil {
		d.pull, err = d.peer.SyscallConn()
	}
	if err == nil {
		err = d.f.SetReadDeadline(time.Time{}) // fails if the network poller does not watch the socket
	}
	if err != nil {
		d.Close()
		return nil, errors.Join(ErrDoorbell, err)
	}
	d.attempt = d.tryRead
	return d, nil
}

// CheckSocket checks that a descriptor is a socket of a pair. The shutdown and the close of
// another kind of file may take long.
//
// Errors: ErrDoorbell.
func CheckSocket(fd int) error {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err = errors.Join(err, err2); err != nil || family != unix.AF_UNIX || kind != unix.SOCK_STREAM {
		return errors.Join(ErrDoorbell, err)
	}
	return nil
}

// OnSleep sets the function that Sleep calls immediately before it sleeps. If the
// function returns false, Sleep returns at once. Call OnSleep before the first Sleep.
func (d *Doorbell) OnSleep(prepare func() bool) { d.prepare = prepare }

// Close closes the doorbell, which may be nil.
func (d *Doorbell) Close() {
	if d != nil {
		_ = d.f.Close()
		_ = d.peer.Close()
	}
}

// Ring wakes the peer if it sleeps on its doorbell. Ringing a broken doorbell has no
// effect.
func (d *Doorbell) Ring() { _ = d.pull.Control(ring) }

// Sleep sleeps in the network poller until the peer rings or Interrupt is called. rang
// reports whether a ring ended the sleep, prepared whether the function of OnSleep was
// called. An error means that the doorbell is broken.
func (d *Doorbell) Sleep() (prepared, rang bool, err error) {
	d.prepared, d.rang = false, false
	err = d.raw.Read(d.attempt)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
		_ = d.f.SetReadDeadline(time.Time{})
	}
	RaceAcquire()
	return d.prepared, d.rang, err
}

// tryRead is called before the network poller begins to watch the socket, and after each
// ring.
func (d *Doorbell) tryRead(uintptr) bool {
	if d.prepared {
		d.rang = true
		return true
	}
	d.prepared = true
	return !d.prepare()
}

// Interrupt ends a Sleep.
func (d *Doorbell) Interrupt() { _ = d.f.SetReadDeadline(longAgo) }

var longAgo = time.Unix(1, 0)

// FutexWait blocks the thread while the word has the value, until FutexWake.
func FutexWait(word *atomic.Uint32, value uint32) {
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(value), 0, 0, 0)
}

// FutexWake wakes all threads that wait on the word.
func FutexWake(word *atomic.Uint32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1<<30, 0, 0, 0)
}

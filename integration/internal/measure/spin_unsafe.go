package measure

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spinner is the descriptor of a non-blocking socket: its reads and writes spin. It goes
// around the scheduler of Go and is for processes with one goroutine. It does not own the
// socket; the connection must outlive it.
type Spinner uintptr

// Read waits for some bytes; p is not empty.
func (s Spinner) Read(p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(s), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch {
		case errno == 0 && n == 0:
			return 0, io.EOF
		case errno == 0:
			return int(n), nil
		case errno != syscall.EAGAIN && errno != syscall.EINTR:
			return 0, errno
		}
	}
}

// Write writes p, and spins while the socket takes no more.
func (s Spinner) Write(p []byte) (done int, err error) {
	for done < len(p) {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(s), uintptr(unsafe.Pointer(&p[done])), uintptr(len(p)-done))
		switch {
		case errno == 0:
			done += int(n)
		case errno != syscall.EAGAIN && errno != syscall.EINTR:
			return done, errno
		}
	}
	return done, nil
}

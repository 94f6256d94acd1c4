package measure

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Congestion is the Control function of a dialer or a listener which sets the congestion
// control of TCP sockets before they are bound or connected; "" leaves the system's.
// Accepted sockets inherit it from their listener.
//
// Errors: of the socket option, where the kernel does not have it or does not allow it.
func Congestion(name string) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) (err error) {
		if name == "" {
			return nil
		}
		e := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		})
		return errors.Join(e, err)
	}
}

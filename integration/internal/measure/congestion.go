package measure

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Congestion returns a Control function for a dialer or a listener. It sets the congestion
// control of TCP sockets before they are bound or connected; "" keeps the default of the
// system. Accepted sockets inherit it from their listener.
//
// Errors: the error of the socket option, if the kernel does not have the algorithm or does
// not allow it.
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

//go:build unix

package rsock

import (
	"bytes"
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peekIs waits until a connection has data, and reports whether the data begins with want.
// The data stays in the connection. At the end of the stream and after an error the result
// is false.
func peekIs(c *net.TCPConn, want []byte) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	got := make([]byte, len(want))
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		for {
			var err error
			n, _, err = unix.Recvfrom(int(fd), got, unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	return err == nil && n == len(want) && bytes.Equal(got, want)
}

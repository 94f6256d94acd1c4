//go:build linux

package ring

import (
	"errors"

	"golang.org/x/sys/unix"
)

// soPassRights is the socket option SO_PASSRIGHTS of Linux 6.16.
const soPassRights = 83

// SetRights sets whether the peers of a Unix socket can send descriptors to it. Sockets that
// a listener accepts inherit the setting. Before Linux 6.16 peers always can.
func SetRights(fd int, accept bool) error {
	value := 0
	if accept {
		value = 1
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, soPassRights, value); !errors.Is(err, unix.ENOPROTOOPT) {
		return err
	}
	return nil
}

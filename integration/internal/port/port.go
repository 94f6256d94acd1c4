// Package port reserves TCP ports for servers that take a port number: another process
// could take a free port before the server does.
package port

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Hold is a port of 127.0.0.1 that is kept for a server. The system does not choose it for
// a socket without a port. A server that sets SO_REUSEADDR, as servers do, can listen
// there. A Hold is not safe for concurrent use.
type Hold struct {
	// Number is the port.
	Number int
	fd     int
}

// Take reserves a port. The caller closes it when the server has ended, or listens.
//
// Errors: the errors of the system calls.
func Take() (*Hold, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: socket: %w", err)
	}
	h := &Hold{fd: fd}
	if err := h.bind(); err != nil {
		h.Close()
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return h, nil
}

func (h *Hold) bind() error {
	if err := unix.SetsockoptInt(h.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(h.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	at, err := unix.Getsockname(h.fd)
	if err != nil {
		return fmt.Errorf("getsockname: %w", err)
	}
	h.Number = at.(*unix.SockaddrInet4).Port
	return nil
}

// Close releases the port. A second Close does nothing; a nil Hold holds nothing.
func (h *Hold) Close() {
	if h != nil && h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}

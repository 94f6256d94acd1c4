package port

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Only a socket with SO_REUSEADDR can bind a held port; after Close any socket can.
func TestHoldAdmitsOnlySharedBinds(t *testing.T) {
	h, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := plainBind(h.Number); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bind of a port that is held: %v", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(h.Number)))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	other, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	if other.Close(); other.Number == h.Number {
		t.Errorf("port %d is held twice", h.Number)
	}
	h.Close()
	h.Close()
	if err := plainBind(h.Number); err != nil && !errors.Is(err, syscall.EADDRINUSE) { // another process may have it by now
		t.Errorf("bind of a port that is free: %v", err)
	}
}

// plainBind binds a port without SO_REUSEADDR.
func plainBind(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}), unix.Close(fd))
}

package smbserver

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TCP checks a connection that the server serves, unless the configuration says otherwise.
func TestKeepAliveIsSet(t *testing.T) {
	for _, x := range []struct {
		cfg  time.Duration
		want int // milliseconds
	}{{0, 10_000}, {2500 * time.Millisecond, 2500}, {-1, 0}} {
		s, _, _ := testServer(t, func(c *Config) { c.KeepAlive = x.cfg })
		_, b := tcpPair(t)
		s.ServeConn(b)
		raw, err := b.(*net.TCPConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				if n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); n != x.want || err != nil {
					t.Errorf("%v: time-out %d ms, %v", x.cfg, n, err)
				}
				if x.want == 0 {
					return
				}
				if on, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE); on != 1 || err != nil {
					t.Errorf("%v: keepalive %d, %v", x.cfg, on, err)
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
	}
}

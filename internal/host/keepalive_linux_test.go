package host

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// The probes of an idle connection, and the time for data, end within the time, which is a second at
// least. A connection that is none of TCP is left alone.
func TestKeepAlive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{10 * time.Second, 4 * time.Second, time.Minute} {
		KeepAlive(c, d)
		err := raw.Control(func(fd uintptr) {
			option := func(name int) int {
				v, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, name)
				if err != nil {
					t.Error(err)
				}
				return v
			}
			idle, interval, count := option(syscall.TCP_KEEPIDLE), option(syscall.TCP_KEEPINTVL), option(syscall.TCP_KEEPCNT)
			if n := time.Duration(idle+interval*count) * time.Second; n > d || n < d/2 {
				t.Errorf("%v: the probes end after %v", d, n)
			}
			if n := time.Duration(option(tcpUserTimeout)) * time.Millisecond; n != d {
				t.Errorf("%v: data has %v", d, n)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := net.Pipe()
	KeepAlive(a, time.Second)
	a.Close()
	b.Close()
}

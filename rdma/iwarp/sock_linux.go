//go:build linux

package iwarp

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a TCP connection as a file. Its RawConn, unlike the RawConn of a net.TCPConn,
// allocates nothing when a deadline ends a wait.
type socket struct {
	*os.File
	local, remote net.Addr
}

// localCongestion is the congestion control of connections within the host. There,
// algorithms that estimate bandwidth and pace the stream only cost time. reno does the
// least, and every kernel has it. If another algorithm enabled pacing before, pacing
// continues at the rate of reno and delays nothing.
const localCongestion = "reno"

// sameHost reports whether a connection stays within the host.
func sameHost(local, remote net.Addr) bool {
	l, ok := local.(*net.TCPAddr)
	r, same := remote.(*net.TCPAddr)
	return ok && same && (r.IP.IsLoopback() || r.IP.Equal(l.IP) && r.Zone == l.Zone)
}

// adopt makes a TCP connection usable without blocking and takes ownership of it. It
// returns any other connection as it is, without a RawConn.
func adopt(nc net.Conn) (net.Conn, syscall.RawConn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc, nil
	}
	f, err := tcp.File()
	if err != nil {
		return nc, nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nc, nil
	}
	tcp.Close()
	if sameHost(nc.LocalAddr(), nc.RemoteAddr()) {
		// The connection works without this option too.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, localCongestion)
		})
	}
	return &socket{f, nc.LocalAddr(), nc.RemoteAddr()}, raw
}

func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// CloseWrite half-closes the connection.
func (s *socket) CloseWrite() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) }); e != nil {
		return e
	}
	return err
}

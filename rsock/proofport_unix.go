//go:build unix

package rsock

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// portsOfProof is how many ports holdPort tries. Most of the dynamic ports may be in use: a
// connection that has ended keeps its port for a minute.
const portsOfProof = 256

// holdPort has the sockets of a dialer connect from a port of an address. The result, which
// the dialer calls with a socket that is not connected, binds the socket to a port that no
// other socket has, and returns the port.
func holdPort(via *net.Dialer, from netip.Addr, pick func() uint16) func(c syscall.RawConn) (uint16, error) {
	via.LocalAddr = nil // the socket is bound before the dialer would bind it
	return func(c syscall.RawConn) (port uint16, err error) {
		zone := zoneID(from.Zone())
		closed := c.Control(func(fd uintptr) {
			for range portsOfProof {
				port = pick()
				err = unix.Bind(int(fd), sockaddrOf(from, zone, port))
				if !errors.Is(err, unix.EADDRINUSE) {
					break
				}
			}
		})
		return port, errors.Join(closed, os.NewSyscallError("bind", err))
	}
}

// sockaddrOf returns an address and a port for a system call.
func sockaddrOf(a netip.Addr, zone uint32, port uint16) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port), ZoneId: zone}
}

// zoneID returns the number of an interface from its name or number, or 0.
func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

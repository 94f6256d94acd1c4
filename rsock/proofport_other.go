//go:build !unix

package rsock

import (
	"net"
	"net/netip"
	"syscall"
)

// holdPort has the sockets of a dialer connect from a port of an address. The result, which
// the dialer calls with a socket that is not connected, returns the port. The dialer binds
// the socket when it connects, and fails then if the port is in use.
func holdPort(via *net.Dialer, from netip.Addr, pick func() uint16) func(c syscall.RawConn) (uint16, error) {
	port := pick()
	via.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, port))
	return func(syscall.RawConn) (uint16, error) { return port, nil }
}

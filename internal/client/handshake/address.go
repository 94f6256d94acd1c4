package handshake

import (
	"encoding/binary"
	"net/netip"

	"lwio/internal/wire"
	"lwio/rdma"
)

// RemoteAddr reads an address that the server listens at; server is where SMB was
// reached.
//
// Errors: *Error.
//
// Source: [OP-38b]
func RemoteAddr(fabric string, a wire.NetAddress, server netip.Addr) (rdma.Addr, error) {
	if fabric == "shm" {
		addr := rdma.Addr{Fabric: fabric, Name: string(a.Discriminator)}
		if copy(addr.Host[:], a.HostAddress) != len(addr.Host) || len(a.HostAddress) != len(addr.Host) || addr.Name == "" {
			return rdma.Addr{}, broke("an address of %d and %d bytes", len(a.HostAddress), len(a.Discriminator))
		}
		return addr, nil
	}
	host := server
	if len(a.HostAddress) != 0 {
		var ok bool
		if host, ok = netip.AddrFromSlice(a.HostAddress); !ok {
			return rdma.Addr{}, broke("an address of %d bytes", len(a.HostAddress))
		}
	}
	if len(a.Discriminator) != 2 {
		return rdma.Addr{}, broke("a port of %d bytes", len(a.Discriminator))
	}
	port := binary.BigEndian.Uint16(a.Discriminator)
	if !host.IsValid() || port == 0 {
		return rdma.Addr{}, broke("the server listens nowhere")
	}
	return rdma.IPAddr(fabric, netip.AddrPortFrom(host, port)), nil
}

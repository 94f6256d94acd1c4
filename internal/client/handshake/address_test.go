package handshake

import (
	"net/netip"
	"testing"

	"lwio/internal/wire"
	"lwio/rdma"
)

// Source: [OP-38b]
func TestRemoteAddr(t *testing.T) {
	server := netip.MustParseAddr("192.0.2.1")
	host := [16]byte{7: 1}
	for _, tt := range []struct {
		fabric string
		addr   wire.NetAddress
		server netip.Addr
		want   rdma.Addr // the zero one: it is refused
	}{
		{"iwarp", wire.NetAddress{Discriminator: []byte{0x11, 0x62}}, server, rdma.IPAddr("iwarp", netip.MustParseAddrPort("192.0.2.1:4450"))},
		{"iwarp", wire.NetAddress{HostAddress: []byte{10, 0, 0, 1}, Discriminator: []byte{0, 1}}, server, rdma.IPAddr("iwarp", netip.MustParseAddrPort("10.0.0.1:1"))},
		{"iwarp", wire.NetAddress{HostAddress: make([]byte, 16), Discriminator: []byte{0, 1}}, server, rdma.IPAddr("iwarp", netip.MustParseAddrPort("[::]:1"))},
		{fabric: "iwarp", addr: wire.NetAddress{Discriminator: []byte{0, 1}}}, // SMB went to no IP address
		{fabric: "iwarp", addr: wire.NetAddress{Discriminator: []byte{0, 0}}, server: server},
		{fabric: "iwarp", addr: wire.NetAddress{Discriminator: []byte{1}}, server: server},
		{fabric: "iwarp", addr: wire.NetAddress{Discriminator: []byte{0, 0, 1}}, server: server},
		{fabric: "iwarp", addr: wire.NetAddress{}, server: server},
		{fabric: "iwarp", addr: wire.NetAddress{HostAddress: []byte{1, 2, 3}, Discriminator: []byte{0, 1}}, server: server},
		{"shm", wire.NetAddress{HostAddress: host[:], Discriminator: []byte("name")}, netip.Addr{}, rdma.Addr{Fabric: "shm", Host: host, Name: "name"}},
		{fabric: "shm", addr: wire.NetAddress{HostAddress: host[:]}},
		{fabric: "shm", addr: wire.NetAddress{HostAddress: host[:15], Discriminator: []byte("name")}},
		{fabric: "shm", addr: wire.NetAddress{HostAddress: append(host[:], 0), Discriminator: []byte("name")}},
	} {
		got, err := RemoteAddr(tt.fabric, tt.addr, tt.server)
		if got != tt.want || (err == nil) == (tt.want == rdma.Addr{}) {
			t.Errorf("%s %+v: %v, %v", tt.fabric, tt.addr, got, err)
		}
		if err != nil {
			isFault(t, err, Violation)
		}
	}
}

package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"lwio/rdma"
)

// A host without an address reports an error, because an empty list means a fabric
// without addresses. Source: [ND Provider]
func TestHostWithoutAddressIsNotReady(t *testing.T) {
	ipNet := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	for _, c := range []struct {
		name string
		ifs  []net.Addr
		want []netip.Addr
	}{
		{name: "no interface is up"},
		{name: "only addresses of no use", ifs: []net.Addr{ipNet("fe80::1/64"), ipNet("224.0.0.1/4"), &net.UnixAddr{}}},
		{name: "two of three", ifs: []net.Addr{ipNet("127.0.0.1/8"), ipNet("fe80::1/64"), ipNet("10.0.0.5/24")},
			want: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.5")}},
	} {
		got, err := usable(c.ifs)
		if !slices.Equal(got, c.want) || (len(c.want) == 0) != errors.Is(err, rdma.StatusDeviceNotReady) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

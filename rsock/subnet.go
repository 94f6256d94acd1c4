package rsock

import (
	"net"
	"net/netip"
)

// hostPrefixes are the unicast addresses of this host with the lengths of their subnets.
func hostPrefixes() ([]netip.Prefix, error) {
	ifs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var list []netip.Prefix
	for _, i := range ifs {
		n, ok := i.(*net.IPNet)
		if !ok {
			continue
		}
		a, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		ones, _ := n.Mask.Size()
		list = append(list, netip.PrefixFrom(a.Unmap(), ones))
	}
	return list, nil
}

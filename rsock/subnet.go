package rsock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"lwio/rdma"
)

// subnets says which destinations a provider reaches: for fabrics of IP those on the
// subnets of the provider's addresses, for fabrics inside one host the host's own
// addresses. It does not change once it is made.
//
// Source: [WSD §1]
type subnets struct {
	made  time.Time
	known uint64         // board.changes when it was begun
	own   []netip.Prefix // addresses of this host, with their subnets
	paths []path         // in the order of the providers
}

// path is a provider with its addresses.
type path struct {
	provider rdma.Provider
	index    int          // in Config.Providers
	addrs    []netip.Addr // none, and no err: the fabric is inside the host
	err      error        // why the addresses are not known, or why there is none now
}

// inside tells whether the fabric stays inside the host. The caller has looked at err.
func (p *path) inside() bool { return len(p.addrs) == 0 }

// readSubnets asks the system and the providers. It fails if ctx ends, as what providers say
// then is not about their addresses.
//
// Source: [WSD §1], [WSD §2.4 SIO_ADDRESS_LIST_QUERY]
func readSubnets(ctx context.Context, cfg *Config) (*subnets, error) {
	own, err := cfg.hostPrefixes()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	s := &subnets{made: time.Now(), own: own}
	for i, p := range cfg.Providers {
		addrs, err := p.Addrs(ctx)
		for j, a := range addrs {
			addrs[j] = a.Unmap()
		}
		s.paths = append(s.paths, path{provider: p, index: i, addrs: addrs, err: err})
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("addresses of the providers: %w", context.Cause(ctx))
	}
	return s, nil
}

// isOwn tells whether a destination is this host.
func (s *subnets) isOwn(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(s.own, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") })
}

// source is the address of a provider of IP from which it reaches a destination: the
// destination itself, if it is one of the provider's, or that on the smallest subnet with
// both. It fails with ErrNoSubnet. from, if valid, is the only one that is allowed.
func (s *subnets) source(p *path, to, from netip.Addr) (netip.Addr, error) {
	var best netip.Addr
	bits := -1
	for _, a := range p.addrs {
		if from.IsValid() && a != from || a.Is4() != to.Is4() {
			continue
		}
		if n := s.common(a, to); n > bits {
			best, bits = a, n
		}
	}
	if bits < 0 {
		return best, ErrNoSubnet
	}
	return best, nil
}

// common is how long the prefix of the subnet is that both addresses are on: -1 if there
// is none, one more than an address for the same one.
func (s *subnets) common(a, to netip.Addr) int {
	if a == to {
		return a.BitLen() + 1
	}
	if a.Zone() != "" && to.Zone() != "" && a.Zone() != to.Zone() {
		return -1
	}
	bits := -1
	for _, p := range s.own {
		if p.Addr() == a.WithZone("") && p.Contains(to.WithZone("")) {
			bits = max(bits, p.Bits())
		}
	}
	return bits
}

// serves tells whether a provider of IP can listen on an address.
func (s *subnets) serves(p *path, a netip.Addr) bool {
	if slices.Contains(p.addrs, a) {
		return true
	}
	// Loopback is a subnet that is all the host's own.
	return a.IsLoopback() && slices.ContainsFunc(p.addrs, func(has netip.Addr) bool {
		return has.IsLoopback() && s.common(has, a) >= 0
	})
}

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
		if a, ok := netip.AddrFromSlice(n.IP); ok {
			ones, _ := n.Mask.Size()
			list = append(list, netip.PrefixFrom(a.Unmap(), ones))
		}
	}
	return list, nil
}

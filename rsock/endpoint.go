package rsock

import (
	"net/netip"

	"lwio/rdma"
)

// endpoint is the address of an RDMA listener on one fabric.
type endpoint struct {
	fabric fabric
	local  netip.Addr // address of the provider; zero inside the host
	at     rdma.Addr
}

// rdmaAddr returns the address of the RDMA listener that belongs to a TCP address.
func rdmaAddr(cfg *Config, f *fabric, tcp netip.AddrPort) rdma.Addr {
	name := f.provider.Name()
	at := cfg.RDMAAddr(name, tcp)
	if f.inHost() {
		return rdma.Addr{Fabric: name, Name: "rsock/" + withoutZone(at).String()}
	}
	return rdma.IPAddr(name, at)
}

// dialEndpoints returns the possible addresses of the RDMA listener of a destination. Inside
// the host, a listener on all addresses has the name of the unspecified address.
func dialEndpoints(cfg *Config, f fabric, to netip.AddrPort, local netip.Addr) []endpoint {
	list := []endpoint{{f, local, rdmaAddr(cfg, &f, to)}}
	if f.inHost() {
		any := netip.IPv6Unspecified()
		if to.Addr().Is4() {
			any = netip.IPv4Unspecified()
		}
		list = append(list, endpoint{f, local, rdmaAddr(cfg, &f, netip.AddrPortFrom(any, to.Port()))})
	}
	return list
}

// listenEndpoints returns the addresses of the RDMA listeners of a TCP listener. For an
// unspecified address these are all addresses of its family, and with dual all addresses of
// both families.
func (s *subnetTable) listenEndpoints(cfg *Config, tcp netip.AddrPort, dual bool) []endpoint {
	var list []endpoint
	for _, f := range s.fabrics {
		if f.err != nil {
			continue
		}
		for _, a := range s.listenAddrs(&f, tcp.Addr(), dual) {
			local := a
			if f.inHost() {
				local = netip.Addr{}
			}
			list = append(list, endpoint{f, local, rdmaAddr(cfg, &f, netip.AddrPortFrom(a, tcp.Port()))})
		}
	}
	return list
}

// listenAddrs returns the addresses at which a provider listens for a TCP listener at a.
func (s *subnetTable) listenAddrs(f *fabric, a netip.Addr, dual bool) []netip.Addr {
	switch {
	case !a.IsUnspecified() && f.inHost() && s.isHost(a), !a.IsUnspecified() && s.canListen(f, a):
		return []netip.Addr{a}
	case !a.IsUnspecified():
		return nil
	case f.inHost() && dual:
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	case f.inHost():
		return []netip.Addr{a}
	}
	var list []netip.Addr
	for _, own := range f.addrs {
		if dual || own.Is4() == a.Is4() {
			list = append(list, own)
		}
	}
	return list
}

// String returns the address as logs and errors show it.
func (e *endpoint) String() string {
	if e.fabric.inHost() {
		return e.at.Name
	}
	return e.at.String()
}

// equal reports whether two endpoints are the same.
func (e *endpoint) equal(o endpoint) bool {
	return e.fabric.index == o.fabric.index && e.local == o.local && e.at == o.at
}

// route is the way in which a provider reaches a destination, or the reason why it cannot.
type route struct {
	fabric fabric
	local  netip.Addr // address of the provider; zero inside the host
	err    error      // why the provider cannot
}

// routes returns the routes to a destination, one for each provider, in the order of the
// providers. A valid from is the address to connect from.
func (s *subnetTable) routes(to, from netip.Addr) []route {
	var list []route
	for _, f := range s.fabrics {
		r := route{fabric: f, err: f.err}
		switch {
		case r.err != nil:
		case f.inHost() && (!s.isHost(to) || from.IsValid() && !s.isHost(from)):
			r.err = ErrOtherHost
		case !f.inHost():
			r.local, r.err = s.source(&f, to, from)
		}
		list = append(list, r)
	}
	return list
}

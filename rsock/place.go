package rsock

import (
	"net/netip"

	"lwio/rdma"
)

// place is an address of the companion of a TCP address.
type place struct {
	path  path
	local netip.Addr // the provider's own address; zero inside the host
	at    rdma.Addr
}

// companionAt is the address of the companion of a TCP address.
func companionAt(cfg *Config, p *path, tcp netip.AddrPort) rdma.Addr {
	fabric := p.provider.Name()
	at := cfg.Companion(fabric, tcp)
	if p.inside() {
		return rdma.Addr{Fabric: fabric, Name: "rsock/" + withoutZone(at).String()}
	}
	return rdma.IPAddr(fabric, at)
}

// targets are the places where the companion of a destination may listen. Inside the host a
// listener that is not bound to an address has the name of the unspecified one.
func targets(cfg *Config, p path, to netip.AddrPort, local netip.Addr) []place {
	list := []place{{p, local, companionAt(cfg, &p, to)}}
	if p.inside() {
		any := netip.IPv6Unspecified()
		if to.Addr().Is4() {
			any = netip.IPv4Unspecified()
		}
		list = append(list, place{p, local, companionAt(cfg, &p, netip.AddrPortFrom(any, to.Port()))})
	}
	return list
}

// doors are the places where the companions of a listener at a TCP address listen. For an
// unspecified address they are those of its family, and of the other one too if both says so.
func (s *subnets) doors(cfg *Config, tcp netip.AddrPort, both bool) []place {
	var list []place
	for _, p := range s.paths {
		if p.err != nil {
			continue
		}
		for _, a := range s.doorsOf(&p, tcp.Addr(), both) {
			local := a
			if p.inside() {
				local = netip.Addr{}
			}
			list = append(list, place{p, local, companionAt(cfg, &p, netip.AddrPortFrom(a, tcp.Port()))})
		}
	}
	return list
}

// doorsOf are the addresses at which a provider listens for a TCP listener at a.
func (s *subnets) doorsOf(p *path, a netip.Addr, both bool) []netip.Addr {
	switch {
	case !a.IsUnspecified() && p.inside() && s.isOwn(a), !a.IsUnspecified() && s.serves(p, a):
		return []netip.Addr{a}
	case !a.IsUnspecified():
		return nil
	case p.inside() && both:
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	case p.inside():
		return []netip.Addr{a}
	}
	var list []netip.Addr
	for _, own := range p.addrs {
		if both || own.Is4() == a.Is4() {
			list = append(list, own)
		}
	}
	return list
}

// String is the address for people to read.
func (p *place) String() string {
	if p.path.inside() {
		return p.at.Name
	}
	return p.at.String()
}

// same tells whether two places are one.
func (p *place) same(o place) bool {
	return p.path.index == o.path.index && p.local == o.local && p.at == o.at
}

// way is how a provider may reach a destination.
type way struct {
	path  path
	local netip.Addr // the provider's own address; zero inside the host
	err   error      // why it cannot
}

// ways are those of a destination, one for each provider, in their order. from, if valid, is
// the address to connect from.
func (s *subnets) ways(to, from netip.Addr) []way {
	var list []way
	for _, p := range s.paths {
		w := way{path: p, err: p.err}
		switch {
		case w.err != nil:
		case p.inside() && (!s.isOwn(to) || from.IsValid() && !s.isOwn(from)):
			w.err = ErrNotLocal
		case !p.inside():
			w.local, w.err = s.source(&p, to, from)
		}
		list = append(list, w)
	}
	return list
}

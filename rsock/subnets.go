package rsock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"lwio/rdma"
)

// subnetTable tells which destinations a provider reaches. Over a fabric with IP addresses
// these are the destinations on the subnets of the provider's addresses; over a fabric
// inside one host, the addresses of the host. A table does not change.
//
// Source: [WSD §1]
type subnetTable struct {
	made    time.Time
	changes uint64         // subnetCache.changes when the addresses were read
	host    []netip.Prefix // addresses of this host, with their subnets
	fabrics []fabric       // in the order of Config.Providers
}

// fabric is a provider with its addresses.
type fabric struct {
	provider rdma.Provider
	index    int          // in Config.Providers
	addrs    []netip.Addr // empty without err: the fabric is inside the host
	err      error        // why the addresses are not known, or why there are none
}

// inHost reports whether the fabric is inside the host. Precondition: err is nil.
func (f *fabric) inHost() bool { return len(f.addrs) == 0 }

// readSubnets reads the addresses from the system and the providers. It fails if ctx ends,
// because the errors of the providers are then not about their addresses.
//
// Source: [WSD §1], [WSD §2.4 SIO_ADDRESS_LIST_QUERY]
func readSubnets(ctx context.Context, cfg *Config) (*subnetTable, error) {
	host, err := cfg.hostPrefixes()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	s := &subnetTable{made: time.Now(), host: host}
	for i, p := range cfg.Providers {
		addrs, err := p.Addrs(ctx)
		for j, a := range addrs {
			addrs[j] = a.Unmap()
		}
		s.fabrics = append(s.fabrics, fabric{provider: p, index: i, addrs: addrs, err: err})
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("addresses of the providers: %w", context.Cause(ctx))
	}
	return s, nil
}

// isHost reports whether a destination is this host.
func (s *subnetTable) isHost(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(s.host, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") })
}

// source returns the address from which a provider with IP addresses reaches a destination:
// the destination itself, if it is an address of the provider, or the address on the
// smallest common subnet. If from is valid, no other address is allowed.
//
// Errors: ErrNoSubnet.
func (s *subnetTable) source(f *fabric, to, from netip.Addr) (netip.Addr, error) {
	var best netip.Addr
	bits := -1
	for _, a := range f.addrs {
		if from.IsValid() && a != from || a.Is4() != to.Is4() {
			continue
		}
		if n := s.commonBits(a, to); n > bits {
			best, bits = a, n
		}
	}
	if bits < 0 {
		return best, ErrNoSubnet
	}
	return best, nil
}

// commonBits returns the prefix length of the subnet that both addresses are on. The result
// is -1 without a common subnet, and one more than the length of an address for equal
// addresses.
func (s *subnetTable) commonBits(a, to netip.Addr) int {
	if a == to {
		return a.BitLen() + 1
	}
	if a.Zone() != "" && to.Zone() != "" && a.Zone() != to.Zone() {
		return -1
	}
	bits := -1
	for _, p := range s.host {
		if p.Addr() == a.WithZone("") && p.Contains(to.WithZone("")) {
			bits = max(bits, p.Bits())
		}
	}
	return bits
}

// canListen reports whether a provider with IP addresses can listen on an address.
func (s *subnetTable) canListen(f *fabric, a netip.Addr) bool {
	if slices.Contains(f.addrs, a) {
		return true
	}
	// All addresses of the loopback subnet are the host's own.
	return a.IsLoopback() && slices.ContainsFunc(f.addrs, func(has netip.Addr) bool {
		return has.IsLoopback() && s.commonBits(has, a) >= 0
	})
}

// hostPrefixes returns the unicast addresses of this host with the lengths of their subnets.
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

// subnetCache holds the current table of subnets. Safe for concurrent use.
type subnetCache struct {
	cfg     *Config
	reading chan struct{} // has one element while a call reads the addresses

	mu      sync.Mutex // guards the fields below; held for a few instructions only
	table   *subnetTable
	changes uint64 // number of reported or suspected changes of addresses
}

func (c *subnetCache) init(cfg *Config) { c.cfg, c.reading = cfg, make(chan struct{}, 1) }

// current returns the table, and reads the addresses again if the table is too old. If that
// fails, the old table stays in use. One call at a time reads the addresses. Other calls
// return the old table meanwhile, and wait only if there is no table.
func (c *subnetCache) current(ctx context.Context) (*subnetTable, error) {
	table, fresh := c.cached()
	if fresh {
		return table, nil
	}
	select {
	case c.reading <- struct{}{}:
		return c.read(ctx)
	default:
	}
	if table != nil {
		return table, nil
	}
	return c.latest(ctx)
}

// latest is current for a caller that must not miss a reported change. It waits for a call
// that reads the addresses, because that call may have begun before the change.
func (c *subnetCache) latest(ctx context.Context) (*subnetTable, error) {
	select {
	case c.reading <- struct{}{}:
		return c.read(ctx)
	case <-ctx.Done():
		return nil, fmt.Errorf("addresses of the providers: %w", context.Cause(ctx))
	}
}

// read reads the table again unless it is fresh. Precondition: the caller has put an element
// into reading. read takes the element out.
func (c *subnetCache) read(ctx context.Context) (*subnetTable, error) {
	defer func() { <-c.reading }()
	table, fresh := c.cached()
	if fresh {
		return table, nil
	}
	c.mu.Lock()
	changes := c.changes
	c.mu.Unlock()
	made, err := readSubnets(ctx, c.cfg)
	if err != nil {
		if table != nil {
			c.cfg.Logger.Warn("rsock: the table of subnets could not be renewed", "err", err)
			return table, nil
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	made.changes = changes
	c.table = made
	return made, nil
}

// cached returns the table, nil if there is none, and whether it is fresh.
func (c *subnetCache) cached() (table *subnetTable, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table, c.table != nil && c.table.changes == c.changes && time.Since(c.table.made) < c.cfg.RefreshInterval
}

// invalidate makes the next call read the addresses again.
func (c *subnetCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
}

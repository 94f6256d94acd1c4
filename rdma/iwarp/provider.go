package iwarp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"lwio/internal/ratelimit"
	"lwio/rdma"
)

// Provider opens iWARP adapters on the addresses of this host. Safe for
// concurrent use.
//
// Source: [ND Provider]
type Provider struct {
	cfg      Config
	adapters atomic.Uint64 // the number of adapters opened
	noise    ratelimit.Log // for log lines that any peer can cause
}

var _ rdma.Provider = (*Provider)(nil)

// The scratch memory of all connections of the process, also of different providers.
// Connections that are served one after another use the same memory.
var (
	readBuffers = sync.Pool{New: func() any { return new([readBufferSize]byte) }}
	batches     = sync.Pool{New: func() any { return newBatch() }}
)

// New makes a provider; cfg may be nil and is copied.
func New(cfg *Config) *Provider {
	return &Provider{cfg: withDefaults(cfg)}
}

// Name is "iwarp". [OP-38b]
func (p *Provider) Name() string { return Name }

// Addrs lists the unicast addresses of the host, including loopback.
//
// Errors: StatusDeviceNotReady if there is none, for instance if all interfaces are down.
func (p *Provider) Addrs(ctx context.Context) ([]netip.Addr, error) {
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "iwarp: list addresses", "")
	}
	ifs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, opError("list addresses", "", rdma.StatusDeviceNotReady, err)
	}
	return usable(ifs)
}

// errNoAddress reports that the host has no address for connections.
var errNoAddress = errors.New("the host has no address")

// usable returns the interface addresses that connections can use.
func usable(ifs []net.Addr) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, i := range ifs {
		n, ok := i.(*net.IPNet)
		if !ok {
			continue
		}
		if a, ok := netip.AddrFromSlice(n.IP); ok && !a.IsMulticast() && !a.IsLinkLocalUnicast() {
			addrs = append(addrs, a.Unmap())
		}
	}
	if len(addrs) == 0 {
		return nil, opError("list addresses", "", rdma.StatusDeviceNotReady, errNoAddress)
	}
	return addrs, nil
}

// OpenAdapter opens an adapter on one address of the host. For the zero address or an
// unspecified address it opens an adapter on all addresses. Such an adapter listens on
// 127.0.0.1 if the listener has no address.
func (p *Provider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	local = local.Unmap()
	if local.IsValid() && !local.IsUnspecified() && !local.IsLoopback() {
		addrs, err := p.Addrs(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(addrs, local.WithZone("")) {
			return nil, opError("open adapter", local.String(), rdma.StatusInvalidAddress, nil)
		}
	}
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "iwarp: open adapter", local.String())
	}
	return newAdapter(p, local, p.adapters.Add(1)), nil
}

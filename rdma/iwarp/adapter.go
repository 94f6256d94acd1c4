package iwarp

import (
	"context"
	"net/netip"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// The identity and capabilities that all adapters share. inlineThreshold is in bytes.
const (
	inlineThreshold = 512
	baseCaps        = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback | rdma.CapPageable |
		rdma.CapRead | rdma.CapWindows | rdma.CapSharedReceive | rdma.CapImmediate | rdma.CapFileSource | rdma.CapAtomics
)

// adapter is a protection domain on one or all addresses of the host.
//
// Source: [ND Adapter]
type adapter struct {
	softrdma.Adapter
	p     *Provider
	local netip.Addr // zero or unspecified: all addresses

	draining atomic.Int64 // connections of drainUntilClosed
}

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, local netip.Addr, id uint64) *adapter {
	a := &adapter{p: p, local: local}
	cfg := &p.cfg
	limits := softrdma.Limits{Backlog: cfg.MaxBacklog, Startups: cfg.MaxStartups, Logger: cfg.Logger}
	a.Init(p, a, limits, rdma.AdapterInfo{
		AdapterID: id, InlineRequestThreshold: inlineThreshold,
		MaxInboundReadLimit: maxReads, MaxOutboundReadLimit: maxReads,
		MaxCallerData: cfg.privateRoom(), MaxCalleeData: cfg.privateRoom(),
		Caps: baseCaps,
	})
	return a
}

// Addrs returns the only address of the adapter, or all addresses of the host.
func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) {
	if a.local.IsValid() && !a.local.IsUnspecified() {
		return []netip.Addr{a.local}, nil
	}
	return a.p.Addrs(ctx)
}

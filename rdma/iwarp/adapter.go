package iwarp

import (
	"context"
	"net/netip"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// The limits of every adapter, in requests, entries and bytes.
const (
	inlineThreshold = 512
	largeThreshold  = 16 << 10
	baseCaps        = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback | rdma.CapPageable |
		rdma.CapRead | rdma.CapWindows | rdma.CapSharedReceive | rdma.CapImmediate | rdma.CapFileSource | rdma.CapAtomics
)

// adapter is a protection domain on one or all addresses of the host.
//
// Source: [ND Adapter]
type adapter struct {
	rdma.UnimplementedAdapter
	dom   *softrdma.Domain
	p     *Provider
	local netip.Addr // zero or unspecified: all addresses
	id    uint64

	parting atomic.Int64 // connections of part
}

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, local netip.Addr, id uint64) *adapter {
	a := &adapter{p: p, local: local, id: id, dom: softrdma.NewDomain(Name)}
	return a
}

// Info gives the limits, which are the same for all adapters of a provider.
func (a *adapter) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{
		AdapterID:                  a.id,
		MaxRegistrationSize:        softrdma.MaxRegistration,
		MaxWindowSize:              softrdma.MaxRegistration,
		MaxInitiatorSGE:            softrdma.MaxSGE,
		MaxReceiveSGE:              softrdma.MaxSGE,
		MaxReadSGE:                 softrdma.MaxSGE,
		MaxTransferLength:          softrdma.MaxTransfer,
		MaxInlineDataSize:          softrdma.MaxInline,
		MaxInboundReadLimit:        maxReads,
		MaxOutboundReadLimit:       maxReads,
		MaxReceiveQueueDepth:       softrdma.MaxQueueDepth,
		MaxInitiatorQueueDepth:     softrdma.MaxQueueDepth,
		MaxSharedReceiveQueueDepth: softrdma.MaxQueueDepth,
		MaxCompletionQueueDepth:    softrdma.MaxCompletionDepth,
		InlineRequestThreshold:     inlineThreshold,
		LargeRequestThreshold:      largeThreshold,
		MaxCallerData:              a.p.cfg.privateRoom(),
		MaxCalleeData:              a.p.cfg.privateRoom(),
		Caps:                       baseCaps,
	}
}

// Addrs lists the one address of the adapter, or all of the host.
func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) {
	if a.local.IsValid() && !a.local.IsUnspecified() {
		return []netip.Addr{a.local}, nil
	}
	return a.p.Addrs(ctx)
}

// CreateCompletionQueue makes a queue, whose memory grows with its use.
func (a *adapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	return a.dom.CreateCompletionQueue(depth)
}

// RegisterMemory makes a region of any memory.
func (a *adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	return a.dom.RegisterMemory(ctx, buf, access, nil)
}

// CreateMemoryWindow makes a window that lends nothing yet.
func (a *adapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	return a.dom.CreateMemoryWindow()
}

// CreateSharedReceiveQueue makes a queue of receives for many queue pairs. A
// connection whose message finds it empty stops reading, so that TCP holds its peer
// back, and goes on when receives are posted.
func (a *adapter) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	return a.dom.CreateSharedReceiveQueue(cfg)
}

// CreateConnector makes an unbound connector.
func (a *adapter) CreateConnector() (rdma.Connector, error) {
	return a.dom.CreateConnector(a)
}

// CreateListener makes an unbound listener.
func (a *adapter) CreateListener() (rdma.Listener, error) {
	cfg := &a.p.cfg
	return a.dom.CreateListener(a, softrdma.Limits{Backlog: cfg.MaxBacklog, Startups: cfg.MaxStartups, Logger: cfg.Logger})
}

// Close closes all objects, class by class.
func (a *adapter) Close() error { return a.dom.Close() }

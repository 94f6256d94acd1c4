package softrdma

import (
	"context"

	"lwio/rdma"
)

// largeThreshold is the LargeRequestThreshold of all adapters, in bytes.
const largeThreshold = 16 << 10

// Adapter is the part of an adapter that does not depend on the transport. A provider's
// adapter embeds it.
//
// Source: [ND Adapter]
type Adapter struct {
	Domain *Domain

	provider rdma.Provider
	network  Network
	limits   Limits
	info     rdma.AdapterInfo
}

// Init makes the adapter of a provider's network. info has the AdapterID, the thresholds,
// the limits of reads and private data, and the capabilities. This package sets the other
// limits.
func (a *Adapter) Init(p rdma.Provider, n Network, limits Limits, info rdma.AdapterInfo) {
	info.MaxRegistrationSize, info.MaxWindowSize = MaxRegistration, MaxRegistration
	info.MaxInitiatorSGE, info.MaxReceiveSGE, info.MaxReadSGE = MaxSGE, MaxSGE, MaxSGE
	info.MaxTransferLength, info.MaxInlineDataSize = MaxTransfer, MaxInline
	info.MaxReceiveQueueDepth, info.MaxInitiatorQueueDepth = MaxQueueDepth, MaxQueueDepth
	info.MaxSharedReceiveQueueDepth, info.MaxCompletionQueueDepth = MaxQueueDepth, MaxCompletionDepth
	info.LargeRequestThreshold = largeThreshold
	a.Domain, a.provider, a.network, a.limits, a.info = NewDomain(p.Name()), p, n, limits, info
}

// Info returns the limits and capabilities.
func (a *Adapter) Info() rdma.AdapterInfo { return a.info }

// Provider returns the provider of the adapter.
func (a *Adapter) Provider() rdma.Provider { return a.provider }

// PairOf returns qp as a Pair if it belongs to this adapter, else nil.
func (a *Adapter) PairOf(qp rdma.QueuePair) Pair {
	if p, ok := qp.(interface {
		Pair
		Of(d *Domain) bool
	}); ok && p.Of(a.Domain) {
		return p
	}
	return nil
}

// CreateCompletionQueue makes a queue whose memory grows with use.
func (a *Adapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	return a.Domain.CreateCompletionQueue(depth)
}

// CreateMemoryWindow makes an unbound window.
func (a *Adapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	return a.Domain.CreateMemoryWindow()
}

// RegisterMemory makes a region of any memory.
func (a *Adapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	return a.Domain.RegisterMemory(ctx, buf, access, nil)
}

// CreateSharedReceiveQueue makes a queue of receives for many queue pairs. If a message
// finds the queue empty, its connection stops reading, which holds the peer back. It
// continues when receives are posted.
func (a *Adapter) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	return a.Domain.CreateSharedReceiveQueue(cfg)
}

// CreateConnector makes an unbound connector.
func (a *Adapter) CreateConnector() (rdma.Connector, error) {
	return a.Domain.CreateConnector(a.network)
}

// CreateListener makes an unbound listener.
func (a *Adapter) CreateListener() (rdma.Listener, error) {
	return a.Domain.CreateListener(a.network, a.limits)
}

// Close closes all objects of the adapter, class by class.
func (a *Adapter) Close() error { return a.Domain.Close() }

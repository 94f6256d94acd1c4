//go:build linux

package shm

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// The limits of every adapter, in requests, entries and bytes.
const (
	maxPrivateData  = 512
	inlineThreshold = 256
	largeThreshold  = 16 << 10
	baseCaps        = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback | rdma.CapPageable |
		rdma.CapWindows | rdma.CapSharedReceive | rdma.CapFileSource | rdma.CapDirectFile | rdma.CapConfidential | rdma.CapRead | rdma.CapImmediate | rdma.CapDirectAlloc |
		rdma.CapByReference
)

// adapter is a protection domain.
//
// Source: [ND Adapter]
type adapter struct {
	rdma.UnimplementedAdapter
	dom  *softrdma.Domain
	p    *Provider
	host [16]byte
	id   uint64

	mu       sync.Mutex
	memories []*memory // that are open
}

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, host [16]byte, id uint64) *adapter {
	a := &adapter{p: p, host: host, id: id, dom: softrdma.NewDomain(Name)}
	return a
}

// Info gives the limits, which are the same for all adapters.
func (a *adapter) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{
		AdapterID:                  a.id,
		MaxRegistrationSize:        softrdma.MaxRegistration,
		MaxWindowSize:              softrdma.MaxRegistration,
		MaxInitiatorSGE:            softrdma.MaxSGE,
		MaxReceiveSGE:              softrdma.MaxSGE,
		MaxTransferLength:          softrdma.MaxTransfer,
		MaxInlineDataSize:          softrdma.MaxInline,
		MaxReadSGE:                 softrdma.MaxSGE,
		MaxInboundReadLimit:        maxReads,
		MaxOutboundReadLimit:       maxReads,
		MaxReceiveQueueDepth:       softrdma.MaxQueueDepth,
		MaxInitiatorQueueDepth:     softrdma.MaxQueueDepth,
		MaxSharedReceiveQueueDepth: softrdma.MaxQueueDepth,
		MaxCompletionQueueDepth:    softrdma.MaxCompletionDepth,
		InlineRequestThreshold:     inlineThreshold,
		LargeRequestThreshold:      largeThreshold,
		MaxCallerData:              maxPrivateData,
		MaxCalleeData:              maxPrivateData,
		Caps:                       baseCaps,
	}
}

// Addrs is empty: the fabric has no IP addresses.
func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) { return a.p.Addrs(ctx) }

// addr is the address of a name on this host.
func (a *adapter) addr(name string) rdma.Addr {
	return rdma.Addr{Fabric: Name, Host: a.host, Name: name}
}

// endsOf are the addresses of a socket.
func (a *adapter) endsOf(nc *net.UnixConn) softrdma.Ends {
	return softrdma.Ends{Local: a.addr(nameOf(nc.LocalAddr())), Peer: a.addr(nameOf(nc.RemoteAddr()))}
}

// ours tells whether an address is on this fabric and host.
func (a *adapter) ours(addr rdma.Addr) bool {
	return !addr.AddrPort.IsValid() && (addr.Fabric == Name || addr.Fabric == "") &&
		(addr.Host == a.host || addr.Host == [16]byte{}) && len(addr.Name) <= maxName
}

// CreateCompletionQueue makes a queue, whose memory grows with its use.
func (a *adapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	return a.dom.CreateCompletionQueue(depth)
}

// CreateMemoryWindow makes a window that lends nothing yet.
func (a *adapter) CreateMemoryWindow() (rdma.MemoryWindow, error) {
	return a.dom.CreateMemoryWindow()
}

// CreateSharedReceiveQueue makes a queue of receives for many queue pairs. A
// connection whose message finds it empty takes nothing more out of its ring, and
// goes on when receives are posted.
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

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

// The identity and capabilities that all adapters share, and limits in bytes.
const (
	maxPrivateData  = 512
	inlineThreshold = 256
	baseCaps        = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback | rdma.CapPageable |
		rdma.CapWindows | rdma.CapSharedReceive | rdma.CapFileSource | rdma.CapDirectFile | rdma.CapConfidential | rdma.CapRead | rdma.CapImmediate | rdma.CapDirectAlloc |
		rdma.CapByReference
)

// adapter is a protection domain.
//
// Source: [ND Adapter]
type adapter struct {
	softrdma.Adapter
	p    *Provider
	host [16]byte

	mu       sync.Mutex
	memories []*memory // the open memories
}

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, host [16]byte, id uint64) *adapter {
	a := &adapter{p: p, host: host}
	cfg := &p.cfg
	limits := softrdma.Limits{Backlog: cfg.MaxBacklog, Startups: cfg.MaxStartups, Logger: cfg.Logger}
	a.Init(p, a, limits, rdma.AdapterInfo{
		AdapterID: id, InlineRequestThreshold: inlineThreshold,
		MaxInboundReadLimit: maxReads, MaxOutboundReadLimit: maxReads,
		MaxCallerData: maxPrivateData, MaxCalleeData: maxPrivateData,
		Caps: baseCaps,
	})
	return a
}

// Addrs returns no address: the fabric has no IP addresses.
func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) { return a.p.Addrs(ctx) }

// addr returns the address of a name on this host.
func (a *adapter) addr(name string) rdma.Addr {
	return rdma.Addr{Fabric: Name, Host: a.host, Name: name}
}

// endsOf returns the addresses of a socket.
func (a *adapter) endsOf(nc *net.UnixConn) softrdma.Ends {
	return softrdma.Ends{Local: a.addr(nameOf(nc.LocalAddr())), Peer: a.addr(nameOf(nc.RemoteAddr()))}
}

// ours reports whether an address is on this fabric and host.
func (a *adapter) ours(addr rdma.Addr) bool {
	return !addr.AddrPort.IsValid() && (addr.Fabric == Name || addr.Fabric == "") &&
		(addr.Host == a.host || addr.Host == [16]byte{}) && len(addr.Name) <= maxName
}

//go:build linux

package shm

import (
	"context"
	"net/netip"
	"sync"

	"lwio/rdma"
)

// The limits of every adapter, in requests, entries and bytes.
const (
	maxQueueDepth      = 16384
	maxCompletionDepth = 1 << 20
	maxSGE             = 16
	maxTransfer        = 1 << 30
	maxInline          = 4096
	maxRegistration    = 1 << 40
	maxPrivateData     = 512
	inlineThreshold    = 256
	largeThreshold     = 4 << 10
	baseCaps           = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback |
		rdma.CapFileSource | rdma.CapConfidential
)

// adapter is a protection domain.
//
// Source: [ND Adapter]
type adapter struct {
	rdma.UnimplementedAdapter
	p     *Provider
	host  [16]byte
	id    uint64
	keys  keySource
	table regionTable

	mu       sync.Mutex
	closed   bool
	objects  [numClasses]map[closer]struct{}
	memories []*memory
}

// closer is an object of an adapter.
type closer interface{ Close() error }

// The classes of objects in the order in which an adapter closes them.
const (
	classListener = iota
	classConnector
	classQueuePair
	classCompletionQueue
	classRegion
	classFile
	classMemory
	numClasses
)

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, host [16]byte, id uint64) *adapter {
	a := &adapter{p: p, host: host, id: id}
	a.table.init()
	for i := range a.objects {
		a.objects[i] = make(map[closer]struct{})
	}
	return a
}

// Info gives the limits, which are the same for all adapters.
func (a *adapter) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{
		AdapterID:               a.id,
		MaxRegistrationSize:     maxRegistration,
		MaxInitiatorSGE:         maxSGE,
		MaxReceiveSGE:           maxSGE,
		MaxTransferLength:       maxTransfer,
		MaxInlineDataSize:       maxInline,
		MaxReceiveQueueDepth:    maxQueueDepth,
		MaxInitiatorQueueDepth:  maxQueueDepth,
		MaxCompletionQueueDepth: maxCompletionDepth,
		InlineRequestThreshold:  inlineThreshold,
		LargeRequestThreshold:   largeThreshold,
		MaxCallerData:           maxPrivateData,
		MaxCalleeData:           maxPrivateData,
		Caps:                    baseCaps,
	}
}

// Addrs is empty: the fabric has no IP addresses.
func (a *adapter) Addrs(ctx context.Context) ([]netip.Addr, error) { return a.p.Addrs(ctx) }

// addr is the address of a name on this host.
func (a *adapter) addr(name string) rdma.Addr {
	return rdma.Addr{Fabric: Name, Host: a.host, Name: name}
}

// ours tells whether an address is on this fabric and host.
func (a *adapter) ours(addr rdma.Addr) bool {
	return !addr.AddrPort.IsValid() && (addr.Fabric == Name || addr.Fabric == "") &&
		(addr.Host == a.host || addr.Host == [16]byte{}) && len(addr.Name) <= maxName
}

// add makes the adapter the owner of an object; it fails once the adapter is
// closed.
func (a *adapter) add(class int, o closer, op string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return opError(op, "", rdma.StatusInvalidHandle, nil)
	}
	a.objects[class][o] = struct{}{}
	return nil
}

// remove ends the ownership of an object that was closed.
func (a *adapter) remove(class int, o closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects[class], o)
}

// CreateConnector makes an unbound connector.
func (a *adapter) CreateConnector() (rdma.Connector, error) {
	c := &connector{a: a, done: make(chan struct{})}
	if err := a.add(classConnector, c, "create connector"); err != nil {
		return nil, err
	}
	return c, nil
}

// CreateListener makes an unbound listener.
func (a *adapter) CreateListener() (rdma.Listener, error) {
	l := &listener{a: a, closing: make(chan struct{})}
	if err := a.add(classListener, l, "create listener"); err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes all objects, class by class.
func (a *adapter) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for class := range a.objects {
		for _, o := range a.snapshot(class) {
			o.Close()
		}
	}
	return nil
}

func (a *adapter) snapshot(class int) []closer {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]closer, 0, len(a.objects[class]))
	for o := range a.objects[class] {
		list = append(list, o)
	}
	return list
}

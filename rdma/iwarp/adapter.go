package iwarp

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
	inlineThreshold    = 512
	largeThreshold     = 16 << 10
	baseCaps           = rdma.CapInOrderPlacement | rdma.CapMultiEngine | rdma.CapCQResize | rdma.CapLoopback |
		rdma.CapRead | rdma.CapWindows | rdma.CapSharedReceive | rdma.CapImmediate | rdma.CapFileSource
)

// adapter is a protection domain on one or all addresses of the host.
//
// Source: [ND Adapter]
type adapter struct {
	rdma.UnimplementedAdapter
	p     *Provider
	local netip.Addr // zero or unspecified: all addresses
	id    uint64
	keys  keySource
	table regionTable

	mu      sync.Mutex
	closed  bool
	objects [numClasses]map[closer]struct{}
	wg      sync.WaitGroup // closes that go on in the background
}

// closer is an object of an adapter.
type closer interface{ Close() error }

// The classes of objects in the order in which an adapter closes them.
const (
	classListener = iota
	classConnector
	classQueuePair
	classSharedQueue
	classCompletionQueue
	classWindow
	classRegion
	classFile
	classMemory
	numClasses
)

var _ rdma.Adapter = (*adapter)(nil)

func newAdapter(p *Provider, local netip.Addr, id uint64) *adapter {
	a := &adapter{p: p, local: local, id: id}
	a.table.init()
	for i := range a.objects {
		a.objects[i] = make(map[closer]struct{})
	}
	return a
}

// Info gives the limits, which are the same for all adapters of a provider.
func (a *adapter) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{
		AdapterID:                  a.id,
		MaxRegistrationSize:        maxRegistration,
		MaxWindowSize:              maxRegistration,
		MaxInitiatorSGE:            maxSGE,
		MaxReceiveSGE:              maxSGE,
		MaxReadSGE:                 maxSGE,
		MaxTransferLength:          maxTransfer,
		MaxInlineDataSize:          maxInline,
		MaxInboundReadLimit:        maxReads,
		MaxOutboundReadLimit:       maxReads,
		MaxReceiveQueueDepth:       maxQueueDepth,
		MaxInitiatorQueueDepth:     maxQueueDepth,
		MaxSharedReceiveQueueDepth: maxQueueDepth,
		MaxCompletionQueueDepth:    maxCompletionDepth,
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

// background runs f in a goroutine that Close waits for, or in this one when
// the adapter is closing.
func (a *adapter) background(f func()) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		f()
		return
	}
	a.wg.Add(1)
	a.mu.Unlock()
	go func() {
		defer a.wg.Done()
		f()
	}()
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
	a.wg.Wait()
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

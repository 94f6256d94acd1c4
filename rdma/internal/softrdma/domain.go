package softrdma

import (
	"context"
	"io"
	"sync"

	"lwio/rdma"
)

// Limits of all software providers, in requests, entries and bytes.
const (
	MaxQueueDepth      = 16384
	MaxCompletionDepth = 1 << 20
	MaxSGE             = 16
	MaxTransfer        = 1 << 30
	MaxInline          = 4096
	MaxRegistration    = 1 << 40
)

// Class is a kind of objects of a Domain. A Domain closes its objects in the order of the
// classes.
type Class int

// The classes.
const (
	Listeners Class = iota
	Connectors
	QueuePairs
	SharedQueues
	CompletionQueues
	MemoryWindows
	Regions
	Files
	Memories
	numClasses
)

// Domain is the protection domain of an adapter: it owns all objects of the adapter. Safe
// for concurrent use.
//
// Source: [ND Adapter]
type Domain struct {
	// Keys are for handles and addresses.
	Keys Keys

	fabric  string
	regions regionTable
	nowhere Windows // home of the windows that were never bound
	mu      sync.Mutex
	closed  bool
	objects [numClasses]map[io.Closer]struct{}
	waiting bool           // Close has closed all objects
	wg      sync.WaitGroup // goroutines of Background
}

// NewDomain makes a domain. Its errors begin with the name of the fabric.
func NewDomain(fabric string) *Domain {
	d := &Domain{fabric: fabric}
	d.nowhere.Init(d, new(sync.Mutex))
	for i := range d.objects {
		d.objects[i] = make(map[io.Closer]struct{})
	}
	return d
}

// Error returns the error of an operation of the domain's provider.
func (d *Domain) Error(op, object string, status rdma.Status, cause error) error {
	return &rdma.Error{Op: d.fabric + ": " + op, Object: object, Status: status, Err: cause}
}

// Canceled returns the error of an operation that ended with ctx.
func (d *Domain) Canceled(ctx context.Context, op, object string) error {
	return rdma.CanceledBy(ctx, d.fabric+": "+op, object)
}

// Add makes the domain the owner of an object that the operation op has made.
//
// Errors: StatusInvalidHandle once the domain is closed.
func (d *Domain) Add(class Class, o io.Closer, op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.Error(op, "", rdma.StatusInvalidHandle, nil)
	}
	d.objects[class][o] = struct{}{}
	return nil
}

// Remove ends the ownership of a closed object.
func (d *Domain) Remove(class Class, o io.Closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.objects[class], o)
}

// Background runs f in a goroutine that Close waits for. When Close has closed all
// objects, it runs f in the calling goroutine instead. Many closed objects can thus wait
// for their peers concurrently.
func (d *Domain) Background(f func()) {
	d.mu.Lock()
	if d.waiting {
		d.mu.Unlock()
		f()
		return
	}
	d.wg.Add(1)
	d.mu.Unlock()
	go func() {
		defer d.wg.Done()
		f()
	}()
}

// Close closes all objects, class by class. A second Close does nothing.
func (d *Domain) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	for class := range d.objects {
		for _, o := range d.snapshot(Class(class)) {
			o.Close()
		}
	}
	d.mu.Lock()
	d.waiting = true
	d.mu.Unlock()
	d.wg.Wait()
	return nil
}

func (d *Domain) snapshot(class Class) []io.Closer {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]io.Closer, 0, len(d.objects[class]))
	for o := range d.objects[class] {
		list = append(list, o)
	}
	return list
}

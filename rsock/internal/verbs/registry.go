package verbs

import (
	"errors"

	"lwio/rdma"
)

// memoryKey identifies a registration: the address of the memory, its size in bytes, and
// the rights.
type memoryKey struct {
	address uintptr
	size    int
	access  Access
}

// registration is memory that is registered for requests of its socket. Socket.mu guards
// refs and pending.
type registration struct {
	s       *Socket
	region  rdma.MemoryRegion
	key     memoryKey
	refs    int // number of times that the memory is registered; 0 once it is closed
	pending int // requests that use it
}

// registry holds the registrations of one socket. Socket.mu guards it.
type registry struct {
	byKey  map[memoryKey]*registration
	remote map[descriptor]rdma.MemoryRegion // regions that the peer may access
}

func (g *registry) init() {
	g.byKey, g.remote = make(map[memoryKey]*registration), make(map[descriptor]rdma.MemoryRegion)
}

// add enters a registration with a reference count of 1.
func (g *registry) add(r *registration) {
	r.refs = 1
	g.byKey[r.key] = r
}

// again adds a reference to the registration of a key, and returns the registration. It
// returns nil if there is none.
func (g *registry) again(key memoryKey) *registration {
	r := g.byKey[key]
	if r != nil {
		r.refs++
	}
	return r
}

// drop removes one reference. After the last it returns the registration, which the caller
// closes; otherwise nil.
func (g *registry) drop(r *registration) *registration {
	if r.refs--; r.refs > 0 {
		return nil
	}
	delete(g.byKey, r.key)
	return r
}

// closeMemory closes all regions. Precondition: the socket is closed, so that no region is
// added.
func (s *Socket) closeMemory() error {
	s.mu.Lock()
	regions := make([]rdma.MemoryRegion, 0, len(s.memory.byKey)+len(s.memory.remote))
	for _, r := range s.memory.byKey {
		regions = append(regions, r.region)
	}
	for _, region := range s.memory.remote {
		regions = append(regions, region)
	}
	s.mu.Unlock()
	var errs []error
	for _, region := range regions {
		errs = append(errs, region.Close())
	}
	return errors.Join(errs...)
}

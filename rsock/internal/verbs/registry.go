package verbs

import (
	"errors"
	"slices"

	"lwio/rdma"
)

// memoryKey tells registrations apart: where the memory begins, its size in bytes,
// and the rights.
type memoryKey struct {
	address uintptr
	size    int
	access  Access
}

// registration is memory that is registered for requests of its socket, whose mu
// guards refs, pending and owner.
type registration struct {
	s       *Socket
	region  rdma.MemoryRegion
	key     memoryKey
	owner   any // of the memory, or nil
	refs    int // how often it is registered; 0: kept in the cache, or closed
	pending int // requests that use it
}

// registry is what a socket has registered; its mu guards it.
type registry struct {
	byKey map[memoryKey]*registration
	lent  map[descriptor]rdma.MemoryRegion
	kept  []*registration // that nobody uses, the oldest first
	most  int             // of kept
}

func (g *registry) init(most int) {
	g.byKey, g.lent, g.most = make(map[memoryKey]*registration), make(map[descriptor]rdma.MemoryRegion), most
}

// add enters a registration.
func (g *registry) add(r *registration) {
	r.refs = 1
	g.byKey[r.key] = r
}

// again counts up the registration of some memory, nil if there is none.
func (g *registry) again(key memoryKey, owner any) *registration {
	r := g.byKey[key]
	if r == nil {
		return nil
	}
	if r.refs == 0 {
		g.kept = slices.DeleteFunc(g.kept, func(k *registration) bool { return k == r })
	}
	if owner != nil {
		r.owner = owner
	}
	r.refs++
	return r
}

// drop counts one down, and returns what is to be closed for it, if anything.
//
// Source: [WSD §6.1]
func (g *registry) drop(r *registration) *registration {
	if r.refs--; r.refs > 0 {
		return nil
	}
	if r.owner == nil || g.most <= 0 {
		delete(g.byKey, r.key)
		return r
	}
	g.kept = append(g.kept, r)
	if len(g.kept) <= g.most {
		return nil
	}
	oldest := g.kept[0]
	g.kept = slices.Delete(g.kept, 0, 1)
	delete(g.byKey, oldest.key)
	return oldest
}

// owned tells how many registrations are kept for owner, and whether some are used.
func (s *Socket) owned(owner any) (kept int, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.memory.byKey {
		if r.owner == owner && owner != nil {
			kept++
			used = used || r.refs > 0
		}
	}
	return kept, used
}

// release closes the registrations that are kept for owner.
func (s *Socket) release(owner any) error {
	s.mu.Lock()
	var out []*registration
	s.memory.kept = slices.DeleteFunc(s.memory.kept, func(r *registration) bool {
		if r.owner != owner {
			return false
		}
		delete(s.memory.byKey, r.key)
		out = append(out, r)
		return true
	})
	s.mu.Unlock()
	var errs []error
	for _, r := range out {
		errs = append(errs, r.region.Close())
	}
	return errors.Join(errs...)
}

// closeMemory closes all regions, of a socket that enters no more.
func (s *Socket) closeMemory() error {
	s.mu.Lock()
	regions := make([]rdma.MemoryRegion, 0, len(s.memory.byKey)+len(s.memory.lent))
	for _, r := range s.memory.byKey {
		regions = append(regions, r.region)
	}
	for _, region := range s.memory.lent {
		regions = append(regions, region)
	}
	s.mu.Unlock()
	var errs []error
	for _, region := range regions {
		errs = append(errs, region.Close())
	}
	return errors.Join(errs...)
}

package iwarp

import "lwio/rdma/internal/softrdma"

// regionCache keeps references to the regions used last, so that a goroutine that handles
// frame after frame does not take and release a reference for each. It belongs to that
// goroutine, which flushes it before anything that may wait. MemoryRegion.Close waits for
// no more than the frames in hand. The zero value is empty.
//
// Source: [RFC 5042 §6.3.1]
type regionCache struct {
	regions [2]*softrdma.Region // one for messages and one for data, mostly; the last used first
}

// acquire holds a reference for l until release. It fails once the right is revoked, but a
// region that was cached before it was closed stays usable until flush.
func (c *regionCache) acquire(l *softrdma.Grant) bool {
	r := l.Region
	if r != nil && (c.regions[0] == r || c.regions[1] == r) {
		return true
	}
	if !l.Acquire() {
		return false
	}
	if r == nil {
		return true
	}
	if old := c.regions[1]; old != nil {
		old.Release()
	}
	c.regions[1], c.regions[0] = c.regions[0], r
	return true
}

// release ends the use of l. The reference of a window is returned at once, as a window
// mostly serves one request.
func (c *regionCache) release(l *softrdma.Grant) {
	if l.Region == nil {
		l.Release()
	}
}

// flush returns all references.
func (c *regionCache) flush() {
	for i, r := range c.regions {
		if r != nil {
			r.Release()
			c.regions[i] = nil
		}
	}
}

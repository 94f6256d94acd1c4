package iwarp

import "lwio/rdma/internal/softrdma"

// regionCache keeps references to the regions used last, so that a goroutine does not
// take and release a reference for each frame. It belongs to that goroutine, which
// flushes it before it may wait. MemoryRegion.Close waits only for the frames in
// progress. The zero value is empty.
//
// Source: [RFC 5042 §6.3.3]
type regionCache struct {
	regions [2]*softrdma.Region // usually one for messages and one for data; the most recently used first
}

// acquire holds a reference for l until release. It fails once the right is revoked. A
// region that was cached before its Close stays usable until flush.
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

// release ends the use of l. The reference of a window is released at once, because a
// window usually serves one request.
func (c *regionCache) release(l *softrdma.Grant) {
	if l.Region == nil {
		l.Release()
	}
}

// flush releases all references.
func (c *regionCache) flush() {
	for i, r := range c.regions {
		if r != nil {
			r.Release()
			c.regions[i] = nil
		}
	}
}

package resident

import (
	"slices"

	"golang.org/x/sys/unix"
)

// reserve takes n bytes of the budget, for which it unlocks chunks that the last sweep found
// unused.
func (c *Cache) reserve(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes.Load()+int64(n) > c.limit.Load() || len(c.chunks) >= maxChunks {
		i := c.victimLocked()
		if i < 0 {
			c.full.Store(true)
			return false
		}
		c.demoteLocked(i)
	}
	c.bytes.Add(int64(n))
	return true
}

// unreserve gives them back.
func (c *Cache) unreserve(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Add(-int64(n))
}

// victimLocked finds a chunk that is not used, from where it found the last one on; -1 if
// there is none.
func (c *Cache) victimLocked() int {
	for range c.chunks {
		c.hand = (c.hand + 1) % len(c.chunks)
		if k := c.chunks[c.hand]; k.idle > 0 && k.s.chunks[k.i].Load()&used == 0 {
			return c.hand
		}
	}
	return -1
}

// demote ends the use of one chunk, unless a sweep or who needed room has.
func (c *Cache) demote(s *segment, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.chunks, func(k *chunk) bool { return k.s == s && k.i == i })
	if at >= 0 {
		c.demoteLocked(at)
	}
}

// demoteLocked ends the use of chunk number at, of which somebody may still be reading.
func (c *Cache) demoteLocked(at int) {
	k, last := c.chunks[at], len(c.chunks)-1
	c.chunks[at], c.chunks[last] = c.chunks[last], nil
	c.chunks = c.chunks[:last]
	k.s.chunks[k.i].Store(0)
	_ = unix.Munlock(k.s.part(k.i, k.bytes))
	c.bytes.Add(-int64(k.bytes))
	c.demotions.Add(1)
	k.f.locked--
	c.leaveLocked(k.f)
}

// sweep notes what was not used since the last, and unlocks what has not been for long, or
// lost pages.
func (c *Cache) sweep() {
	c.mu.Lock()
	at := len(c.chunks)
	c.mu.Unlock()
	for at > 0 {
		at--
		c.look(at)
	}
	c.full.Store(c.limit.Load() == 0)
}

// look is what sweep does with one chunk of the list, if it is that long: others may take
// some out meanwhile, and a chunk may be looked at twice therefore, or not.
func (c *Cache) look(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at >= len(c.chunks) {
		return
	}
	k := c.chunks[at]
	if k.idle++; k.s.chunks[k.i].And(^uint32(used))&used != 0 {
		k.idle = 0
	}
	lost := !inMemory(k.s.part(k.i, k.bytes))
	if lost {
		k.f.leaveAlone()
	}
	if lost || k.idle >= IdleSweeps {
		c.demoteLocked(at)
	}
}

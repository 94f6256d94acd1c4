package resident

import (
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// use finds the file of a key, or makes it, for one more user.
func (c *Cache) use(key Key) *file {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[key]
	if f == nil {
		c.lastID++
		f = &file{c: c, id: c.lastID, seed: rand.Uint64() | 1, key: key}
		c.files[key] = f
	}
	f.users++
	return f
}

// reuse makes the goroutine of the file's device a user, unless there is no other, or the cache
// is closed.
func (c *Cache) reuse(f *file) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.users == 0 || c.closed {
		return false
	}
	f.users++
	return true
}

// release ends a use.
func (c *Cache) release(f *file) {
	c.mu.Lock()
	f.users--
	c.leaveLocked(f)
	c.mu.Unlock()
	c.bury()
}

// Forget says that the file of a key is deleted: what is kept of it goes with its last view,
// so that its space on disk is free.
func (c *Cache) Forget(key Key) {
	if c.heat == nil {
		return
	}
	c.mu.Lock()
	if f := c.files[key]; f != nil {
		f.doomed = true
		c.leaveLocked(f)
	}
	c.mu.Unlock()
	c.bury()
}

// leaveLocked sees to a file that nobody uses: what is hot is kept for who opens it next,
// until it is not any more. A file that is mapped has a key that is that of no other.
func (c *Cache) leaveLocked(f *file) {
	if f.users > 0 || c.files[f.key] != f || f.locked > 0 && !f.doomed && !c.closed {
		return
	}
	delete(c.files, f.key)
	c.dead = append(c.dead, f)
}

// bury unmaps the files of the list. Nobody uses them, and what is locked of them goes with
// the mapping, and counts until then. A deleted file's disk may be waited for.
func (c *Cache) bury() {
	c.mu.Lock()
	dead := c.dead
	c.dead = nil
	locked := make([]int64, len(dead))
	for i, f := range dead {
		locked[i] = c.forgetLocked(f)
	}
	c.mu.Unlock()
	for i, f := range dead {
		all := f.all()
		for _, s := range all {
			_ = unix.Munmap(s.mem)
		}
		c.freed(locked[i], len(all))
	}
}

// forgetLocked takes the chunks of a file out of the list, and tells how many bytes they
// have, which stay in the sum.
func (c *Cache) forgetLocked(f *file) int64 {
	locked := int64(0)
	for at := len(c.chunks) - 1; at >= 0 && f.locked > 0; at-- {
		if k := c.chunks[at]; k.f == f {
			last := len(c.chunks) - 1
			c.chunks[at], c.chunks[last] = c.chunks[last], nil
			c.chunks = c.chunks[:last]
			locked += int64(k.bytes)
			f.locked--
			c.demotions.Add(1)
		}
	}
	return locked
}

// freed counts what is unmapped: there may be room again.
func (c *Cache) freed(locked int64, segments int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Add(-locked)
	c.segments -= segments
	c.full.Store(c.limit.Load() == 0)
}

package resident

import (
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what waits to be promoted. Each proposal has a descriptor.
const (
	// maxQueue is how many may wait of one device.
	maxQueue = 32
	// maxDevices is of how many devices at a time there may be promotions: one that hangs holds
	// up those of its own files alone, as long as so many do not hang.
	maxDevices = 8
)

// proposal is a chunk that is hot, with a descriptor of its own.
type proposal struct {
	f     *file
	fd    int
	index uint64
}

// propose hands a hot chunk to the goroutine of its device, unless there is no use in that; it
// is false if there is too much to do.
func (c *Cache) propose(v *View, index uint64) bool {
	if c.full.Load() || v.file.until.Load() > c.heat.now() {
		return true
	}
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	device := v.file.key.Device
	queue, working := c.queues[device]
	if len(queue) == maxQueue || !working && len(c.queues) == maxDevices {
		return false
	}
	fd, err := unix.FcntlInt(uintptr(v.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return true
	}
	c.queues[device] = append(queue, proposal{v.file, fd, index})
	if !working {
		c.running++
		go c.promoteAll(device)
	}
	return true
}

// promoteAll is the goroutine of a device, as long as there are proposals.
func (c *Cache) promoteAll(device uint64) {
	for p, ok := c.next(device); ok; p, ok = c.next(device) {
		c.consider(p)
	}
	c.bury()
	c.leave()
}

// next takes a proposal out of the queue of a device, or ends the queue.
func (c *Cache) next(device uint64) (p proposal, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked()
	queue := c.queues[device]
	if len(queue) == 0 {
		delete(c.queues, device)
		return p, false
	}
	p = queue[0]
	c.queues[device] = append(queue[:0], queue[1:]...)
	return p, true
}

// leave ends a goroutine, which is the last thing that it does with the cache.
func (c *Cache) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.closed && c.running == 0 {
		close(c.done)
	}
}

// sweepLocked sees to it that somebody looks after what is kept.
func (c *Cache) sweepLocked() {
	if !c.sweeping && !c.closed && c.bytes.Load() > 0 {
		c.sweeping = true
		c.running++
		go c.sweepAll()
	}
}

// sweepAll is the goroutine that looks after what is kept, as long as there is something.
func (c *Cache) sweepAll() {
	defer c.leave()
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		c.sweep()
		c.bury()
		if c.swept() {
			return
		}
	}
}

// swept ends the sweeps if nothing is kept any more.
func (c *Cache) swept() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes.Load() > 0 {
		return false
	}
	c.sweeping = false
	c.full.Store(c.limit.Load() == 0)
	return true
}

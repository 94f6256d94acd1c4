package server

import (
	"time"

	"lwio/rdma"
)

const (
	// holdTime bounds for how long an answer stays in the outbox that would wake the
	// client, and how long the work on an operation may take for that.
	holdTime = 200 * time.Microsecond
	// polledTime is the same of an answer that is polled for: a part of what a client
	// looks for it before it sleeps. polledEnough is how many of those are enough.
	polledTime   = 30 * time.Microsecond
	polledEnough = 8
)

// hold is about the answers of workers that stay in the outbox for a moment. A
// wake-up costs both sides more than a small write: a client that has many in flight is
// woken once for several. One that polls is not woken; but to send costs a system call,
// where the provider has no memory in common with the client, and on either side more than
// a small write does. conn.mu guards it.
type hold struct {
	n     int // answers that are held
	since time.Time
	limit time.Duration // of the timer: the least that any of them has
	timer *time.Timer   // posts them if nothing else does; one of conn.jobs while it runs
}

// holdsLocked decides whether the last n answers, which are in the outbox and which a
// worker began to work on then, stay there: until there are enough to wake the client (as many
// as are still outstanding, or polledEnough, if they wake nobody), the time is over, or
// anything else is posted.
//
// Source: [LWIO §Wakeup]
func (c *conn) holdsLocked(n int, wakes bool, begun, now time.Time) bool {
	h, limit := &c.hold, holdTime
	if !wakes {
		if limit = polledTime; c.f.info.Caps.Has(rdma.CapDirectAlloc) {
			return false
		}
	}
	if now.Sub(begun) > limit || c.draining.Load() || c.pumping || c.dead {
		return false // who is pumping takes it along
	}
	if h.n += n; h.n == n {
		h.since = now
	}
	enough := h.n >= min(c.pending, polledEnough)
	if wakes {
		enough = c.worthWaking(h.n, h.n+c.pending)
	}
	if enough || now.Sub(h.since) > limit {
		return false
	}
	switch {
	case h.n > n && h.limit <= limit:
		return true
	case h.timer == nil:
		c.jobs.Add(1)
		h.timer = time.AfterFunc(limit, c.letGo)
	case !h.timer.Reset(limit):
		c.jobs.Add(1)
	}
	h.limit = limit
	return true
}

// letGo posts what is held, when the time is over.
func (c *conn) letGo() {
	defer c.jobs.Done()
	c.mu.Lock()
	c.postOutbox()
}

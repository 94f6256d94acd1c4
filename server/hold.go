package server

import "time"

// holdTime bounds for how long an answer stays in the outbox that would wake the
// client, and how long the work on an operation may take for that.
const holdTime = 200 * time.Microsecond

// hold is about the answers of workers that stay in the outbox for a moment. A
// wake-up costs both sides more than a small write: a client that has many in flight is
// woken once for several. conn.mu guards it.
type hold struct {
	n     int // answers that are held
	since time.Time
	timer *time.Timer // posts them if nothing else does; one of conn.jobs while it runs
}

// holdsLocked decides whether the last n answers, which are in the outbox and which a
// worker began to work on then, stay there: until there are as many as are still
// outstanding, the time is over, or anything else is posted.
//
// Source: [LWIO §Wakeup]
func (c *conn) holdsLocked(n int, begun, now time.Time) bool {
	h := &c.hold
	if now.Sub(begun) > holdTime || c.draining.Load() || c.pumping || c.dead {
		return false // who is pumping takes it along
	}
	if h.n += n; h.n == n {
		h.since = now
	}
	if h.n > c.pending || now.Sub(h.since) > holdTime {
		return false
	}
	switch {
	case h.n > n:
	case h.timer == nil:
		c.jobs.Add(1)
		h.timer = time.AfterFunc(holdTime, c.letGo)
	case !h.timer.Reset(holdTime):
		c.jobs.Add(1)
	}
	return true
}

// letGo posts what is held, when the time is over.
func (c *conn) letGo() {
	defer c.jobs.Done()
	c.mu.Lock()
	c.postOutbox()
}

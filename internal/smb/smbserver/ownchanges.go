package smbserver

import (
	"log/slog"
	"sync"
	"time"

	"lwio/internal/statefile"
)

// ownChanges keeps the bound of the times at which this process changes files ahead of the clock, while there are opens
// for which the next process compares it with the times of their files: so a change by another program is later only if no
// process of the server runs. It begins with the first persistent handle. Safe for concurrent use.
type ownChanges struct {
	bound *statefile.TimeBound // nil if the server has no state
	log   *slog.Logger
	// wanted reports whether there are durable opens. It is called with mu held.
	wanted func() bool

	mu      sync.Mutex
	timer   *time.Timer // nil while no opens need the bound
	failing bool        // the bound could not be moved
	stopped bool
}

// begin makes the bound later than all changes so far, before a persistent handle is recorded or after it is restored.
func (c *ownChanges) begin() {
	if c.bound == nil {
		return
	}
	c.bound.Cover()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && !c.stopped {
		c.timer = time.AfterFunc(statefile.BoundStep/2, c.tick)
	}
}

// tick moves the bound, as long as it is wanted.
func (c *ownChanges) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return
	case !c.wanted():
		c.timer = nil
		return
	}
	err := c.bound.Extend()
	if err != nil && !c.failing {
		c.log.Error("smb: the next process will not notice changes of open files by other programs", "err", err)
	}
	c.failing = err != nil
	c.timer.Reset(statefile.BoundStep / 2)
}

// stop ends it.
func (c *ownChanges) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped = true; c.timer != nil {
		c.timer.Stop()
	}
}

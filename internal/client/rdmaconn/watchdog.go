package rdmaconn

import (
	"fmt"
	"os"
)

// WatchParts is the number of the watchdog's ticks in Config.Timeout.
const WatchParts = 4

// Watch is one tick of the watchdog. The supervisor calls it WatchParts times in Config.Timeout. It ends the wait for requests older than Config.Timeout, and
// ends a connection with a request that is twice as old. An operation with a deadline of its own
// is not watched; its request ages from when it is given up.
//
// Source: [OP-110], [OP-113]
func (c *Conn) Watch() {
	c.progress.countProcessors()
	now := c.count.ticks.Add(1)
	d := delivery{r: &c.answers}
	for i := range c.table.entries {
		s := &c.table.entries[i]
		c.answers.look(s, &d)
		d.handOver()
		w := s.load()
		age := now - s.tick.Load()
		if !w.isOutstanding() || age <= WatchParts {
			continue
		}
		if age > 2*WatchParts && s.load() == w {
			c.Fail(fmt.Errorf("no answer in %v: %w", 2*c.cfg.Timeout, os.ErrDeadlineExceeded))
			return
		}
		if w.state() == requestPending && s.settle(w) {
			c.expire(s)
		}
	}
}

package lwio

import (
	"context"
	"math"
	"time"
)

// haunted reports whether a write that is uncertain may still be going on, on another
// connection than the one that is used next.
func (c *Client) haunted() bool { return len(c.rails) > 1 && c.orphans.Load() > 0 }

// fenceOrphans is a fence if there is a write that needs it.
func (c *Client) fenceOrphans(ctx context.Context) error {
	if !c.haunted() {
		return nil
	}
	ctx, cancel := c.cfg.bounded(ctx)
	defer cancel()
	return c.fence(ctx)
}

// leastBusy is the rail with the fewest calls in flight among those that have a
// connection and are not full; equals take turns. If all that have one are full it is nil;
// if none has, it is the one that is waited for longest.
func (c *Client) leastBusy(full railSet) *rail {
	first := int(c.turn.Add(1) % uint32(len(c.rails)))
	best, hoped := (*rail)(nil), c.rails[first]
	least, until := int64(math.MaxInt64), time.Time{}
	up := false
	for i := range c.rails {
		r := c.rails[(first+i)%len(c.rails)]
		cn := r.live()
		if cn == nil {
			if t := r.waits(); t.After(until) {
				hoped, until = r, t
			}
			continue
		}
		up = true
		if n := cn.wanting.Load(); n < least && !full.has(r) {
			best, least = r, n
		}
	}
	if !up {
		return full.unless(hoped)
	}
	return best
}

// railSet is a set of rails of a client.
type railSet uint8

func (s *railSet) add(r *rail)     { *s |= 1 << r.index }
func (s railSet) has(r *rail) bool { return s&(1<<r.index) != 0 }

// unless is r, or nil if r is in the set.
func (s railSet) unless(r *rail) *rail {
	if s.has(r) {
		return nil
	}
	return r
}

// orphan notes that a write on the connection that was lost is uncertain, and nobody
// waits for it any more. As long as it may be going on, what comes later on other
// connections has to wait for a fence: it must not be overwritten by what was before.
//
// Source: [OP-112]
func (r *rail) orphan() {
	r.notice()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state > railOwed && !r.fenced && !r.orphans {
		r.orphans = true
		r.c.orphans.Add(1)
	}
}

package paths

import (
	"context"
	"math"
	"time"

	"lwio/internal/client/rdmaconn"
)

// MustFence reports whether a write that is uncertain may still be going on, on another
// connection than the one that is used next.
func (c *Set) MustFence() bool { return len(c.Paths) > 1 && c.orphans.Load() > 0 }

// FenceOrphans is a fence if there is a write that needs it.
func (c *Set) FenceOrphans(ctx context.Context) error {
	if !c.MustFence() {
		return nil
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	return c.Fence(ctx)
}

// LeastBusy is the path with the fewest calls in flight among those that have a
// connection and are not full; equals take turns. If all that have one are full it is nil;
// if none has, it is the one that is waited for longest.
func (c *Set) LeastBusy(full PathBits) *Path {
	first := int(c.turn.Add(1) % uint32(len(c.Paths)))
	best, hoped := (*Path)(nil), c.Paths[first]
	least, until := math.MaxInt, time.Time{}
	up := false
	for i := range c.Paths {
		r := c.Paths[(first+i)%len(c.Paths)]
		cn := r.Live()
		if cn == nil {
			if t := r.waits(); t.After(until) {
				hoped, until = r, t
			}
			continue
		}
		up = true
		if n := cn.Pending(); n < least && !full.Has(r) {
			best, least = r, n
		}
	}
	if !up {
		return full.Unless(hoped)
	}
	return best
}

// PathBits is a set of paths of a client.
type PathBits uint8

// Add adds r.
func (s *PathBits) Add(r *Path) { *s |= 1 << r.Index }

// Has reports whether r is in the set.
func (s PathBits) Has(r *Path) bool { return s&(1<<r.Index) != 0 }

// Unless is r, or nil if r is in the set.
func (s PathBits) Unless(r *Path) *Path {
	if s.Has(r) {
		return nil
	}
	return r
}

// Orphan notes that a write on the connection that was lost is uncertain, and no call
// waits for it any more. As long as it may be going on, later requests on other
// connections have to wait for a fence: the old write must not overwrite theirs.
//
// Source: [OP-112]
func (r *Path) Orphan() {
	r.notice()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.state > pathReplaying && !r.Fenced && !r.orphans {
		r.orphans = true
		r.Set.orphans.Add(1)
	}
}

const (
	// MinStripe and maxStripe bound how many bytes of a large operation go over one
	// connection before the next part may go over another.
	MinStripe = 256 << 10
	maxStripe = 4 << 20
	// stripesPerPath is in how many parts for each connection it is cut otherwise, so that
	// faster connections do more.
	stripesPerPath = 4
)

// Stripe is how many bytes of an operation of n bytes go over one connection at a time, or 0
// where it is not spread over several.
func (c *Set) Stripe(n int) int {
	if len(c.Paths) < 2 || n <= MinStripe {
		return 0
	}
	up := 0
	for _, r := range c.Paths {
		if r.Live() != nil {
			up++
		}
	}
	if up < 2 {
		return 0
	}
	size := min(max(n/(stripesPerPath*up), MinStripe), maxStripe)
	return (size + rdmaconn.ProtocolPage - 1) / rdmaconn.ProtocolPage * rdmaconn.ProtocolPage
}

package paths

import (
	"context"
	"math"
	"time"

	"lwio/internal/client/rdmaconn"
)

// MustFence reports whether an uncertain write may still be done on another connection than the next
// request uses.
func (c *Set) MustFence() bool { return len(c.Paths) > 1 && c.pathsWithUncertainWrites.Load() > 0 }

// FenceUncertainWrites calls Fence if MustFence reports true.
func (c *Set) FenceUncertainWrites(ctx context.Context) error {
	if !c.MustFence() {
		return nil
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	return c.Fence(ctx)
}

// LeastBusy returns the path with the fewest requests in flight, among paths that have a connection
// and are not full. Equal paths take turns. If all paths with a connection are full, it returns nil.
// If no path has a connection, it returns the path for whose connection calls wait longest.
func (c *Set) LeastBusy(full PathBits) *Path {
	first := int(c.turn.Add(1) % uint32(len(c.Paths)))
	best, awaited := (*Path)(nil), c.Paths[first]
	least, until := math.MaxInt, time.Time{}
	up := false
	for i := range c.Paths {
		r := c.Paths[(first+i)%len(c.Paths)]
		cn := r.Live()
		if cn == nil {
			if t := r.waits(); t.After(until) {
				awaited, until = r, t
			}
			continue
		}
		up = true
		if n := cn.Pending(); n < least && !full.Has(r) {
			best, least = r, n
		}
	}
	if !up {
		return full.Unless(awaited)
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

// NoteUncertainWrite notes that a write on the lost connection is uncertain, and that no call waits
// for it. Later requests on other connections wait for a fence, because the server may still do the
// write after them.
//
// Source: [OP-112]
func (r *Path) NoteUncertainWrite() {
	r.notice()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state > pathReplaying && !r.fenced && !r.hasUncertainWrites {
		r.hasUncertainWrites = true
		r.Set.pathsWithUncertainWrites.Add(1)
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

// Stripe returns the number of bytes of an operation of n bytes that go over one connection at a time.
// It returns 0 for an operation that is not spread over several connections.
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

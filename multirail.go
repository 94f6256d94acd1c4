package lwio

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minStripe and maxStripe bound how many bytes of a large read or write go over one
	// connection before the next part may go over another.
	minStripe = 256 << 10
	maxStripe = 4 << 20
	// stripesPerRail is in how many parts for each connection it is cut otherwise, so that
	// those that are faster do more.
	stripesPerRail = 4
)

// rail returns the rail for the next request, nil without RDMA.
//
// Errors: those of ctx, and of the fence.
func (c *Client) rail(ctx context.Context) (*rail, error) {
	switch len(c.rails) {
	case 0:
		return nil, nil
	case 1:
		return c.rails[0], nil
	}
	if err := c.fenceOrphans(ctx); err != nil {
		return nil, err
	}
	return c.leastBusy(0), nil
}

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

// stripes is how many connections a read or write of n bytes is cut up for; below two it
// is not.
func (c *Client) stripes(n int) (rails int) {
	if len(c.rails) < 2 || n <= minStripe {
		return 0
	}
	for _, r := range c.rails {
		if r.live() != nil {
			rails++
		}
	}
	return rails
}

// striped calls one for parts of total bytes, on as many at a time as rails says, each of
// which takes the next part when it is done with one. It returns what one would: the bytes
// from the beginning, and the error behind them.
func striped(rails, total int, one func(at, n int) (int, error)) (done int, err error) {
	size := min(max(total/(stripesPerRail*rails), minStripe), maxStripe)
	size = (size + protocolPage - 1) / protocolPage * protocolPage
	ends := make([]stripeEnd, (total+size-1)/size)
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(ends) {
				return
			}
			n, err := one(i*size, min(size, total-i*size))
			if ends[i] = (stripeEnd{n, err}); err != nil {
				next.Store(int64(len(ends))) // what comes behind does not count
			}
		}
	}
	var others sync.WaitGroup
	for range min(rails, len(ends)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return joinStripes(ends)
}

// stripeEnd is what became of a part.
type stripeEnd struct {
	n   int
	err error
}

// joinStripes is the end of all parts: the first error counts, but what is uncertain
// behind it makes it so too.
func joinStripes(ends []stripeEnd) (done int, err error) {
	for _, e := range ends {
		switch {
		case err == nil:
			done, err = done+e.n, e.err
		case isUncertain(e.err) && !isUncertain(err):
			err = &uncertainError{err}
		}
	}
	return done, err
}

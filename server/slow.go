package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lwio/internal/wire"
	"lwio/rdma"
)

// slow holds the connection back whose user's requests come too fast, or move too much,
// once what is ready is on its way. A loop that waits so does not spin.
func (c *conn) slow(h *wire.Header) error {
	bytes := 0
	if h.Opcode.IO() {
		bytes = int(min(h.Length, maxWindow)) // what is longer is refused
	}
	wait := c.pace.Take(1, bytes)
	if wait == 0 {
		return nil
	}
	c.e.count.slowed.Add(1)
	c.stopSpinning()
	batch := results.Get().(*[pollSize]rdma.Result)
	defer results.Put(batch)
	return c.waitOut(wait, batch)
}

// waitOut waits for so long. What was begun goes on meanwhile, so that no close of a file
// has to wait with the connection, and the end of that is seen; what the client sends
// is kept for later.
func (c *conn) waitOut(d time.Duration, batch *[pollSize]rdma.Result) error {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	defer c.pauseCredits()()
	rest, late := c.rest, c.late
	c.rest, c.late = nil, nil
	if err := c.sift(rest); err != nil {
		return err
	}
	c.late = append(c.late, late...) // which came after the rest
	for {
		n, err := c.cq.Poll(batch[:])
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		if err := c.sift(batch[:n]); err != nil {
			return err
		}
		c.flush()
		switch {
		case c.drained():
			return errShutdown
		case ctx.Err() != nil:
			return context.Cause(c.ctx)
		case n > 0:
			continue
		}
		if err := c.cq.Wait(ctx, rdma.NotifyAny); err != nil && ctx.Err() == nil {
			return fmt.Errorf("notify: %w", err)
		}
	}
}

// sift handles results, but keeps messages for later.
func (c *conn) sift(all []rdma.Result) error {
	for i := range all {
		if r := &all[i]; r.Op == rdma.OpReceive && r.Status == rdma.StatusSuccess {
			c.late = append(c.late, *r)
		} else if err := c.handle(r); err != nil {
			return err
		}
	}
	return nil
}

// poll takes results, those first that were kept by waitOut: never more than there are
// receives.
func (c *conn) poll(batch *[pollSize]rdma.Result) (int, error) {
	if c.late == nil {
		return c.cq.Poll(batch[:])
	}
	n := copy(batch[:], c.late)
	if c.late = slices.Delete(c.late, 0, n); len(c.late) == 0 {
		c.late = nil
	}
	return n, nil
}

package lwio

import (
	"context"
	"errors"
)

// send sends what is queued while there are credits. With block it waits for one
// credit if nothing is in flight.
func (b *Batch) send(ctx context.Context, block bool) error {
	var full railSet // rails without a credit
	for wait := false; b.queued < len(b.queue); {
		if b.broken() != nil {
			return nil // Wait sees to that
		}
		o := b.queue[b.queued]
		r := b.railOf(o, full)
		if r == nil && full != 0 { // no credit anywhere
			if !block || b.sent > 0 || wait {
				return nil
			}
			wait, full = true, 0
			continue
		}
		cn, err := b.lane(ctx, o, r)
		if err != nil && ctx.Err() != nil {
			return err // the operation stays queued
		}
		if err != nil || cn == nil || !o.fits(cn) {
			o = b.dequeueRest()
			if err == nil {
				err = o.atOnce(ctx)
			}
			b.finish(o, err)
			continue
		}
		if l := b.legs[cn.rail.index]; l != nil && l.conn != cn && l.sent > 0 {
			return nil // that one is down, and Wait sees to it first
		}
		n, err := b.sendOn(ctx, b.legOn(cn), wait && b.sent == 0)
		switch {
		case err != nil:
			return err
		case n > 0:
		case cn.isDown():
			return nil // Wait goes another way
		default:
			full.add(cn.rail)
		}
	}
	b.queue, b.queued = b.queue[:0], 0
	b.all(func(l *leg) { l.starve(0) })
	return nil
}

// railOf is the rail for o: the one that it was on before, or the one whose turn it is;
// nil if that has no credit, and no other has, or if there is no RDMA.
//
// The operations of a batch have no order among each other, so that they are dealt over
// all connections; but a few small ones stay together, as each connection that answers
// costs a wake-up.
func (b *Batch) railOf(o *op, full railSet) *rail {
	rails := b.c.rails
	switch {
	case o.owed != nil:
		return full.unless(o.owed.rail)
	case len(rails) == 0:
		return nil
	case len(rails) == 1:
		return full.unless(rails[0])
	case o.on != nil && !o.on.isDown() && !full.has(o.on.rail):
		return o.on.rail
	}
	if r := b.dealer; r == nil || b.deal <= 0 || full.has(r) || r.live() == nil {
		b.dealer, b.deal = b.c.leastBusy(full), minStripe
	}
	return b.dealer
}

// lane is the connection of rail r for o, or nil for SMB.
func (b *Batch) lane(ctx context.Context, o *op, r *rail) (*conn, error) {
	err := o.f.check(ctx, o.off, o.size)
	if err != nil && o.owed != nil && ctx.Err() == nil {
		return nil, o.owed.uncertain(err)
	}
	if err != nil || o.size == 0 {
		return nil, err
	}
	if o.owed != nil {
		return b.laneAgain(ctx, o)
	}
	if r == nil {
		return nil, o.f.noRDMA(errors.New(b.c.withoutRDMA))
	}
	if err := b.c.fenceOrphans(ctx); err != nil {
		return nil, err
	}
	cn, fid, err := o.f.laneOn(ctx, r, false)
	o.fid = fid
	return cn, err
}

package lwio

import (
	"context"
	"errors"
	"math"

	"lwio/internal/wire"
	"lwio/rdma"
)

// send sends what is queued while there are credits. With block it waits for one
// credit if nothing is in flight.
func (q *queue) send(ctx context.Context, block bool) error {
	if !q.queued() {
		return nil
	}
	var full railSet // paths without a credit
	for wait := false; q.queued(); {
		if q.broken() != nil || q.most() == 0 {
			return nil // wait sees to that
		}
		o := q.pending[q.head]
		r := q.pathOf(o, full)
		if r == nil && full != 0 { // no credit anywhere
			if !block || q.sent > 0 || wait {
				return nil
			}
			wait, full = true, 0
			continue
		}
		cn, err := q.route(ctx, o, r)
		if err != nil && ctx.Err() != nil {
			return err // the operation stays queued
		}
		if err != nil {
			q.finish(q.dequeueRest(), err)
			continue
		}
		if cn == nil {
			q.sendSMB(ctx, q.dequeue(nil))
			continue
		}
		if l := q.flights[cn.rail.index]; l != nil && l.conn != cn && l.sent > 0 {
			return nil // that one is down, and wait sees to it first
		}
		n, err := q.sendOn(ctx, q.flightOn(cn), wait && q.sent == 0)
		switch {
		case err != nil:
			return err
		case n > 0:
		case cn.isDown():
			return nil // wait goes another way
		default:
			full.add(cn.rail)
		}
	}
	q.pending, q.head = q.pending[:0], 0
	for _, l := range q.flights {
		if l != nil {
			l.starve(0)
		}
	}
	return nil
}

// pathOf is the path for o: the one that it was on before, or the one whose turn it is;
// nil if that has no credit, and no other has, or if there is no RDMA.
//
// The operations of a queue have no order among each other, so that they are dealt over
// all connections; but a few small ones stay together, as each connection that answers
// costs a wake-up.
func (q *queue) pathOf(o *operation, full railSet) *rail {
	rails := q.c.rails
	switch {
	case o.unacked != nil:
		return full.unless(o.unacked.rail)
	case len(rails) == 0 || o.overSMB:
		return nil
	case len(rails) == 1:
		return full.unless(rails[0])
	case o.cut == 0 && o.on != nil && !o.on.isDown() && !full.has(o.on.rail):
		return o.on.rail
	}
	if r := q.dealer; r == nil || q.deal <= 0 || full.has(r) || r.live() == nil {
		q.dealer, q.deal = q.c.leastBusy(full), minStripe
	}
	return q.dealer
}

// route is the connection of path r for o, or nil for SMB.
func (q *queue) route(ctx context.Context, o *operation, r *rail) (*conn, error) {
	err := o.f.check(ctx, o.off, o.size)
	if err != nil && o.unacked != nil && ctx.Err() == nil {
		return nil, o.unacked.uncertain(err)
	}
	switch {
	case err != nil || o.size == 0 || o.overSMB:
		return nil, err
	case o.unacked != nil:
		return q.routeAgain(ctx, o)
	case r == nil:
		return nil, o.f.noRDMA(errors.New(q.c.withoutRDMA))
	}
	if err := q.c.fenceOrphans(ctx); err != nil {
		return nil, err
	}
	cn, fid, err := o.f.laneOn(ctx, r, false)
	o.fid = fid
	return cn, err
}

// sendOn sends queued operations on a connection, with one post for all, and returns how many
// it took from the queue, parts too: also those that could not be sent, and are over. With
// several paths it ends where it is the turn of another.
func (q *queue) sendOn(ctx context.Context, l *flight, block bool) (int, error) {
	cn := l.conn
	if cn.pin() != nil {
		return 0, nil
	}
	defer cn.unpin()
	q.flying = q.flying[:0]
	var taken someSlots
	took, starved, most := 0, 0, q.most()
	for first := true; q.queued() && took < most; first = false {
		o := q.pending[q.head]
		if !first && (!o.joins(ctx, cn) || len(q.flights) > 1 && (o.on != cn || o.cut > 0) && q.deal <= 0) {
			break
		}
		if taken.members == 0 {
			taken = cn.free.takeSome(min(q.requests(cn, slotsAtOnce), most-took))
		}
		s := cn.free.next(&taken)
		if s == nil && block && first {
			var err error
			l.starve(q.requests(cn, maxCredits))
			if s, err = cn.acquire(ctx, true); err != nil && !isLost(err) {
				return 0, err
			}
		}
		if s == nil {
			starved = q.requests(cn, maxCredits)
			break
		}
		o = q.dequeue(cn)
		if err := o.prepare(ctx, cn, s); err != nil {
			s.again = false
			cn.release(s)
			if isLost(err) || ctx.Err() != nil {
				q.putBack(o)
				break
			}
			took++
			if o.unacked != nil { // it was sent before, and may have been done
				err = o.unacked.uncertain(err)
			}
			q.finish(o, err)
			continue
		}
		took++
		o.flight = l
		if o.done == 0 {
			q.deal -= o.size
		}
		q.flying = append(q.flying, o)
	}
	cn.unused(taken)
	q.launch(l, starved)
	return took, nil
}

// postAtOnce is how many operations are posted together where that costs no system call,
// so that the server begins while others are made ready.
const postAtOnce = 8

// launch posts what is prepared for a connection, while so many more wait for a credit there.
// The caller uses the connection.
func (q *queue) launch(l *flight, starved int) {
	cn := l.conn
	l.starve(starved)
	if len(q.flying) == 0 {
		return
	}
	cn.wanting.Add(int64(len(q.flying)))
	q.sent += len(q.flying)
	l.sent += len(q.flying)
	at, pending := cn.clock(), int(cn.wanting.Load())
	var h wire.Header
	var data payload
	early := cn.info.Caps.Has(rdma.CapDirectAlloc)
	cn.sendMu.Lock()
	for i, o := range q.flying {
		if early && i > 0 && i%postAtOnce == 0 {
			cn.startPosting()
			cn.sendMu.Lock()
		}
		o.message(&h, &data)
		h.SetPending(pending)
		cn.queueLocked(o.s, &h, &data, slotPending, at)
	}
	if q.call {
		cn.postTogether()
		return
	}
	cn.startPosting()
}

// most is how many requests more the queue may have in flight: those of a blocking call
// leave credits to others.
func (q *queue) most() int {
	if q.call {
		return max(maxPieces-q.sent, 0)
	}
	return math.MaxInt
}

// maxPieces is how many requests a blocking call keeps in flight.
const maxPieces = 32

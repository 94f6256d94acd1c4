package fileio

import (
	"context"
	"errors"
	"math"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// send sends the queued operations while there are credits. With block it waits for one
// credit if nothing is in flight.
func (q *queue) send(ctx context.Context, block bool) error {
	if err := q.sendOverSMB(ctx); err != nil {
		return err
	}
	var full paths.PathBits // paths without a credit
	for wait := false; !q.pending.empty(); {
		if q.flights.broken() || q.most() == 0 {
			return nil // wait handles both
		}
		o := q.pending.first()
		r, free := q.pathOf(o, full)
		if !free {
			if !block || q.sent > 0 || wait {
				return nil
			}
			wait, full = true, 0
			continue
		}
		cn, err := q.route(ctx, o, r)
		if errors.Is(err, errPathDown) {
			return nil // wait takes the lost requests back first, or waits for answers
		}
		if err != nil && ctx.Err() != nil {
			return err // the operation stays queued
		}
		if err != nil {
			q.finish(q.dequeueRest(&q.pending), err)
			continue
		}
		if cn == nil {
			q.pending.pop()
			q.smb.pending.push(o)
			if err := q.sendOverSMB(ctx); err != nil {
				return err
			}
			continue
		}
		if l := q.flights[paths.PathOf(cn).Index]; l != nil && l.Conn != cn && l.sent > 0 {
			return nil // that one is down, and wait sees to it first
		}
		n, err := q.sendOn(ctx, q.flights.on(cn), wait && q.sent == 0)
		switch {
		case err != nil:
			return err
		case n > 0:
		case cn.IsDown():
			return nil // wait goes another way
		default:
			full.Add(paths.PathOf(cn))
		}
	}
	q.flights.clearWaitingForCredit()
	return nil
}

// pathOf returns the path for o: its former path, or the current path of the queue. r is nil
// if o goes over SMB. free is false if all paths that o may use are full.
//
// The operations of a queue have no order among each other, so they are spread over all connections.
// Small operations stay together up to paths.MinStripe bytes, because each connection that answers
// costs a wake-up.
func (q *queue) pathOf(o *operation, full paths.PathBits) (r *paths.Path, free bool) {
	list := q.c.Paths
	switch {
	case o.unacked != nil:
		r = full.Unless(o.unacked.path)
	case len(list) == 0 || o.overSMB:
		return nil, true
	case len(list) == 1:
		r = full.Unless(list[0])
	case o.cut == 0 && o.on != nil && !o.on.IsDown() && !full.Has(paths.PathOf(o.on)):
		r = paths.PathOf(o.on)
	default:
		if d := q.currentPath; d == nil || q.bytesLeftOnPath <= 0 || full.Has(d) || d.Live() == nil {
			q.currentPath, q.bytesLeftOnPath = q.c.LeastBusy(full), paths.MinStripe
		}
		r = q.currentPath
	}
	return r, r != nil
}

// route is the connection of path r for o, or nil for SMB. An operation that is not a replay waits for
// a connection only if the queue has no request in flight over RDMA.
//
// Errors: errPathDown if it must not wait.
func (q *queue) route(ctx context.Context, o *operation, r *paths.Path) (*rdmaconn.Conn, error) {
	err := o.refused(ctx)
	if err != nil && o.unacked != nil && ctx.Err() == nil {
		return nil, o.unacked.uncertain(err)
	}
	switch {
	case err != nil || o.size == 0 || o.overSMB:
		return nil, err
	case o.unacked != nil:
		return q.routeAgain(ctx, o)
	case r == nil:
		return nil, o.f.noRDMA(errors.New(q.c.WithoutRDMA))
	}
	if err := q.c.FenceUncertainWrites(ctx); err != nil {
		return nil, err
	}
	cn, fid, err := o.f.pathFor(ctx, r, access{replays: q.replaysOn(r), inFlight: q.flights.inFlight()})
	o.fid = fid
	return cn, err
}

// refused is the reason not to send o. A write that has begun goes on though its file is
// closed: File.Close waits for it.
func (o *operation) refused(ctx context.Context) error {
	switch {
	case o.epoch == nil:
		return o.f.check(ctx, o.off, o.size)
	case o.q.c.Closed.Load():
		return base.ErrClientClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// sendOn sends queued operations on a connection, with one post for all, and returns how many
// it took from the queue, parts too: also those that could not be sent, and are over. With
// several paths it ends where it is the turn of another.
func (q *queue) sendOn(ctx context.Context, l *flight, block bool) (int, error) {
	cn := l.Conn
	if cn.Pin() != nil {
		return 0, nil
	}
	defer cn.Unpin()
	q.flying = q.flying[:0]
	var credits rdmaconn.Credits
	took, waitingForCredit, most := 0, 0, q.most()
	for first := true; !q.pending.empty() && took < most; first = false {
		o := q.pending.first()
		if !first && (!o.joins(ctx, cn) || len(q.flights) > 1 && (o.on != cn || o.cut > 0) && q.bytesLeftOnPath <= 0) {
			break
		}
		part := o.part(cn)
		if credits.Empty() {
			credits = cn.TakeCredits(min(q.requests(cn, part, creditsAtOnce), most-took))
		}
		s := cn.NextCredit(&credits)
		if s == nil && block && first {
			var err error
			l.setWaitingForCredit(q.requests(cn, part, base.MaxCredits))
			if s, err = cn.AwaitCredit(ctx); err != nil && !base.IsLost(err) {
				return 0, err
			}
		}
		if s == nil {
			waitingForCredit = q.requests(cn, part, base.MaxCredits)
			break
		}
		o = q.dequeue(&q.pending, part)
		if err := o.prepare(ctx, cn, s); err != nil {
			cn.Release(s)
			if base.IsLost(err) || ctx.Err() != nil {
				q.pending.pushFront(o)
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
			q.bytesLeftOnPath -= o.size
		}
		q.flying = append(q.flying, &o.Ticket)
	}
	cn.ReturnCredits(credits)
	q.launch(l, waitingForCredit)
	return took, nil
}

// sendSingle does the work of send and sleep for the operation of a blocking call, in the usual
// case: there is one path, the file is registered on it, a credit is free, and one request has the
// whole operation. It reports whether the request was sent, and returns at the latest when the
// answer is there. Otherwise o is still to be sent.
func (q *queue) sendSingle(ctx context.Context, o *operation) bool {
	if len(q.flights) != 1 {
		return false
	}
	cn, fid := o.f.pathNow(q.c.Paths[0])
	if cn == nil || o.part(cn) > 0 || cn.Pin() != nil {
		return false
	}
	defer cn.Unpin()
	credit := cn.TakeCredits(1)
	s := cn.NextCredit(&credit)
	if s == nil {
		return false
	}
	o.fid = fid
	if o.prepare(ctx, cn, s) != nil {
		cn.Release(s)
		return false // send reports the error
	}
	l := q.flights.on(cn)
	o.flight, q.flying = l, append(q.flying[:0], &o.Ticket)
	q.launch(l, 0)
	if cn.BusyPoll(&o.Ticket) {
		q.returned(o)
		q.goOn(o)
		return true
	}
	q.SleepAt(&l.Place, 1)
	cn.Await(ctx, &l.Place, &q.Arrivals, false)
	return true
}

// launch posts the prepared requests for a connection, while so many more wait for a credit there.
// Precondition: the caller has pinned the connection.
func (q *queue) launch(l *flight, waitingForCredit int) {
	l.setWaitingForCredit(waitingForCredit)
	n := len(q.flying)
	if n == 0 {
		return
	}
	q.sent += n
	l.sent += n
	l.Conn.AddPending(n)
	l.Conn.Post(q.flying, q.Call)
}

// creditsAtOnce is how many credits a queue takes at most before it prepares their requests.
const creditsAtOnce = 64

// most is the number of further requests that the queue may have in flight. A blocking call
// leaves credits to other calls.
func (q *queue) most() int {
	if q.Call {
		return max(maxPieces-q.sent, 0)
	}
	return math.MaxInt
}

// maxPieces is how many requests a blocking call keeps in flight.
const maxPieces = 32

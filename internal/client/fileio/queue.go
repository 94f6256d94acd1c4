package fileio

import (
	"context"
	"io/fs"

	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// queue is the one engine of file I/O: it splits operations into requests, keeps those in
// flight over RDMA or over SMB, replays them after a loss, and collects completions. A Batch
// has one for its life; a blocking call takes one with a single operation from the client's
// pool and waits for it. A queue is for one goroutine at a time.
//
// Source: [LWIO §I/O Processing], [OP-113]
type queue struct {
	c               *Client
	ops             []operation
	idle            []*operation
	pending         sendList           // to be sent; those that are known to go over SMB wait in smb
	flying          []*rdmaconn.Ticket // being prepared, scratch
	parts           []*operation       // parts that are not over
	spare           []*operation       // parts for the next use
	wholes          int                // number of operations that are sent in parts
	out             []Completion
	flights         flightSet
	smb             smbFlight
	sent            int         // in flight on all
	currentPath     *paths.Path // the path of the next operations, while bytesLeftOnPath is positive
	bytesLeftOnPath int         // before another path takes its place

	reads, readBytes uint64 // over RDMA, not in Client.overRDMA yet

	waker contextWaker // of a goroutine that sleeps at a connection

	rdmaconn.Arrivals
}

// newQueue makes a queue of up to n operations at a time.
func (c *Client) newQueue(n int) *queue {
	q := &queue{c: c, ops: make([]operation, n), idle: make([]*operation, 0, n), pending: sendList{ops: make([]*operation, 0, 2*n)},
		flying: make([]*rdmaconn.Ticket, 0, n), out: make([]Completion, 0, 2*n), flights: make(flightSet, len(c.Paths))}
	for i := range q.ops {
		q.ops[i].begin(q)
		q.idle = append(q.idle, &q.ops[i])
	}
	q.smb.flight.Place = rdmaconn.NewPlace(nil)
	return q
}

// add returns a new operation, which is not queued yet. The caller has checked that there is room.
func (q *queue) add(f *File, r *arguments, tag uint64) *operation {
	last := len(q.idle) - 1
	o := q.idle[last]
	q.idle = q.idle[:last]
	o.f, o.arguments, o.tag, o.busy = f, *r, tag, true
	if r.segs == nil {
		o.buf = q.c.Buffers.Of(r.p)
	}
	return o
}

// push queues o. An operation that goes over SMB does not wait behind those that wait for a credit
// of a path.
func (q *queue) push(o *operation) {
	if o.unacked == nil && (o.overSMB || o.f.isOnSMB()) {
		q.smb.pending.push(o)
		return
	}
	q.pending.push(o)
}

// queued reports whether operations are to be sent.
func (q *queue) queued() bool { return !q.pending.empty() || !q.smb.pending.empty() }

// wait sends the queued operations, and returns when there are least completions.
//
// Errors: ctx's.
func (q *queue) wait(ctx context.Context, least int) error {
	for {
		q.reap()
		if len(q.out) >= max(least, 1) && !q.queued() {
			return nil
		}
		if err := q.handleLostConnections(ctx); err != nil {
			return err
		}
		if err := q.send(ctx, len(q.out) < least); err != nil {
			return err
		}
		if len(q.out) >= least {
			return nil
		}
		if ctx.Err() != nil && !q.flights.broken() {
			return context.Cause(ctx)
		}
		if q.sent > 0 {
			q.sleep(ctx, least-len(q.out))
		}
	}
}

// tally counts the reads that are over.
func (q *queue) tally() {
	if q.reads > 0 {
		q.c.overRDMA.Reads.Add(q.reads)
		q.c.overRDMA.ReadBytes.Add(q.readBytes)
		q.reads, q.readBytes = 0, 0
	}
}

// perform does one operation of the file and waits for it. After an error n bytes from the
// beginning are read or written for certain. When it returns, the memory of the operation is
// the caller's, unless it is part of a Buffer that is still in use by the server then.
func (f *File) perform(ctx context.Context, r *arguments) (n int, err error) {
	if err := f.check(ctx, r.off, r.size); err != nil || r.size == 0 {
		return 0, err
	}
	q, ok := f.c.calls.Get().(*queue)
	if !ok {
		q = f.c.newQueue(1)
		q.Call = true
	}
	_, r.timed = ctx.Deadline()
	q.currentPath = nil
	if o := q.add(f, r, 0); !q.sendSingle(ctx, o) {
		q.push(o)
	}
	if len(q.out) == 0 {
		if err := q.wait(ctx, 1); err != nil {
			q.giveUp(err)
		}
	}
	d := q.out[0]
	q.out = q.out[:0]
	q.tally()
	f.c.calls.Put(q)
	return d.N, d.Err
}

// Close gives up everything that is queued or in flight, and takes the memory back.
func (q *queue) Close() {
	q.waker.clear()
	q.giveUp(fs.ErrClosed)
	q.tally()
	q.idle, q.pending, q.smb.pending, q.parts, q.out = nil, sendList{}, sendList{}, nil, nil
}

package fileio

import (
	"context"
	"errors"
	"slices"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
)

// Why writes cannot be sent again.
var (
	errForgotten = errors.New("the server does not know the outcome of the writes")
	errTooOld    = errors.New("too many messages ago")
	errOvertaken = errors.New("the server died during the write, and the file was changed since, or the write failed when it was done again")
	errDifferent = errors.New("the server takes other sizes now")
)

// unacknowledged is the replay record of a write: its request was sent, and not answered
// before the connection broke. The write is sent again under its old number, by which the
// server does it once.
//
// Source: [OP-112]
type unacknowledged struct {
	path    *paths.Path
	lineage uint64 // of the connections that know the outcome
	number  uint64
	n       int   // bytes
	cause   error // the end of the connection
}

// replay is the state of an operation whose connection was lost.
type replay struct {
	unacked *unacknowledged // of a write, from the loss until its request is answered
	keeps   bool            // the Buffer of the write is held until then
	first   *paths.Path     // the path that is reserved until then; or nil
	losses  int             // connections lost since a request was answered
}

// uncertain is the error of a write that cannot be sent again, and why.
func (w *unacknowledged) uncertain(why error) error {
	w.path.NoteUncertainWrite()
	if why == nil {
		return base.Uncertain(w.cause)
	}
	return base.Uncertain(base.Reasons{w.cause, why})
}

// replayFirst keeps o's Buffer, and the connection that takes the place of the lost one for
// replays, until o's is over: a blocking call waits for it. The caller holds up the teardown of the
// connection.
func (o *operation) replayFirst(r *paths.Path) {
	if o.buf != nil && !o.keeps {
		o.keeps = o.buf.Hold() == nil
	}
	if o.q.Call && o.first == nil {
		o.first = r
		r.BeginReplay()
	}
}

// Unanswered has the connection that takes the place of the lost one replay a write first.
func (o *operation) Unanswered(c *rdmaconn.Conn) {
	if o.write {
		o.replayFirst(paths.PathOf(c))
	}
}

// acknowledge ends the replay of o, answered or not.
func (o *operation) acknowledge() {
	if o.unacked != nil || o.keeps || o.first != nil {
		o.endReplay()
	}
}

// endReplay forgets the lost request. It releases the Buffer and the path that were kept for the
// replay.
func (o *operation) endReplay() {
	o.unacked = nil
	if o.keeps {
		o.buf.Release()
		o.keeps = false
	}
	if o.first != nil {
		o.first.EndReplay()
		o.first = nil
	}
}

// replaysOn reports whether a blocking call has writes that are sent again on path r and not
// answered yet. The path is reserved for replays until they are, so that the other parts of
// the same call must use it too.
func (q *queue) replaysOn(r *paths.Path) bool {
	if !q.Call {
		return false
	}
	replays := func(o *operation) bool { return o.unacked != nil && o.unacked.path == r }
	return replays(&q.ops[0]) || slices.ContainsFunc(q.parts, replays)
}

// routeAgain is the connection for a write that was sent before.
func (q *queue) routeAgain(ctx context.Context, o *operation) (*rdmaconn.Conn, error) {
	cn, fid, err := o.f.pathFor(ctx, o.unacked.path, access{replays: true})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil || cn == nil:
		return nil, o.unacked.uncertain(err)
	case cn.Lineage != o.unacked.lineage:
		return nil, o.unacked.uncertain(errForgotten)
	}
	o.fid = fid
	return cn, nil
}

// repeat makes r the request that was sent before.
func (o *operation) repeat(cn *rdmaconn.Conn, r *rdmaconn.IO) error {
	switch {
	case o.n != o.unacked.n:
		return errDifferent
	case cn.TooOld(o.unacked.number):
		return errTooOld
	}
	r.Replay, r.Number = true, o.unacked.number
	o.q.c.writesAgain.Add(1)
	return nil
}

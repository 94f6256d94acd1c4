package lwio

import (
	"context"
	"errors"
)

// maxBehind is how many messages ago a write may have been sent for the first time that
// is sent again: its Sequence has 16 bits. [OP-112]
const maxBehind = 1<<15 - 1

// maxFarBehind is that for writes of connections before the last one: of those the
// server forgets the oldest outcomes when there are many. [OP-112]
const maxFarBehind = 512

// Why writes cannot be sent again.
var (
	errForgotten = errors.New("the server does not know what became of the writes")
	errTooOld    = errors.New("too many messages ago")
	errDifferent = errors.New("the server takes other sizes now")
)

// unacknowledged is the replay record of a write: its request was sent, and not answered
// before the connection broke. The write is sent again under its old number, by which the
// server does it once.
//
// Source: [OP-112]
type unacknowledged struct {
	rail    *rail
	lineage uint64 // of the connections that know the outcome
	number  uint64
	n       int   // bytes
	cause   error // what broke the connection
}

// uncertain is the error of a write that cannot be sent again, and why.
func (w *unacknowledged) uncertain(why error) error {
	w.rail.orphan()
	if why == nil {
		return &uncertainError{w.cause}
	}
	return &uncertainError{reasons{w.cause, why}}
}

// replayFirst keeps o's Buffer, and the connection that takes the place of the lost one for
// replays, until o's is over: a blocking call waits for it. The caller holds up the teardown of the
// connection.
func (o *operation) replayFirst(r *rail) {
	if o.buf != nil && !o.keeps {
		o.keeps = o.buf.hold() == nil
	}
	if o.q.call && o.first == nil {
		o.first = r
		r.owe()
	}
}

// acknowledge ends the replay of o, answered or not.
func (o *operation) acknowledge() {
	o.unacked = nil
	if o.keeps {
		o.buf.letGo()
		o.keeps = false
	}
	if o.first != nil {
		o.first.settled()
		o.first = nil
	}
}

// routeAgain is the connection for a write that was sent before.
func (q *queue) routeAgain(ctx context.Context, o *operation) (*conn, error) {
	cn, fid, err := o.f.laneOn(ctx, o.unacked.rail, true)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil || cn == nil:
		return nil, o.unacked.uncertain(err)
	case cn.lineage != o.unacked.lineage:
		return nil, o.unacked.uncertain(errForgotten)
	}
	o.fid = fid
	return cn, nil
}

// repeat makes the request in slot s the one that was sent before.
func (o *operation) repeat(cn *conn, s *slot) error {
	switch {
	case o.n != o.unacked.n:
		return errDifferent
	case cn.tooOld(o.unacked.number):
		return errTooOld
	}
	s.number, s.again = o.unacked.number, true
	o.q.c.writesAgain.Add(1)
	return nil
}

// tooOld tells whether a message was sent too long ago to be sent again. That leaves
// room enough for those that others may send meanwhile.
func (c *conn) tooOld(number uint64) bool {
	behind := c.nextNumber() - number
	return behind > maxBehind || number < c.recent && behind > maxFarBehind
}

// nextNumber is the number of the next message.
func (c *conn) nextNumber() uint64 {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.seq
}

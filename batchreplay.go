package lwio

import "context"

// owedOp is the request of a write in a batch that was not answered before its connection
// broke.
//
// Source: [OP-112]
type owedOp struct {
	rail    *rail
	lineage uint64 // of the connections that know what became of it
	number  uint64
	n       int   // bytes
	cause   error // what broke the connection
}

// uncertain is the error of a write that cannot be sent again, and why.
func (w *owedOp) uncertain(why error) error {
	w.rail.orphan()
	if why == nil {
		return &uncertainError{w.cause}
	}
	return &uncertainError{reasons{w.cause, why}}
}

// laneAgain is the connection for a write that was sent before.
func (b *Batch) laneAgain(ctx context.Context, o *op) (*conn, error) {
	cn, fid, err := o.f.laneOn(ctx, o.owed.rail, true)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil || cn == nil:
		return nil, o.owed.uncertain(err)
	case cn.lineage != o.owed.lineage:
		return nil, o.owed.uncertain(errForgotten)
	}
	o.fid = fid
	return cn, nil
}

// repeat makes the request in slot s the one that was sent before.
func (o *op) repeat(cn *conn, s *slot) error {
	switch {
	case o.n != o.owed.n:
		return errDifferent
	case cn.tooOld(o.owed.number):
		return errTooOld
	}
	s.number, s.again = o.owed.number, true
	o.b.c.writesAgain.Add(1)
	return nil
}

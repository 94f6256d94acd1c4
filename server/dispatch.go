package server

import (
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// receive handles the message that arrived in a slot. An error ends the
// connection.
//
// Source: [OP-27] [OP-50d]
func (c *conn) receive(slot int32, r *rdma.Result) error {
	here := r.Bytes // and the rest is lent
	if r.RemoteData != nil {
		here -= r.RemoteData.Len()
	}
	if here < wire.HeaderSize {
		return violation("a message of %d bytes, of which %d came", r.Bytes, here)
	}
	o, err := c.newOp()
	if err != nil {
		return err
	}
	at := int(slot) * wire.HeaderSize
	if err = o.h.Decode(c.buf[at : at+wire.HeaderSize]); err != nil {
		return violation("%w", err)
	}
	if c.now == 0 {
		c.now = c.e.clock()
	}
	if c.slept { // of the wake-ups, those by its own requests tell nothing of a crowd
		c.slept = false
		c.woken, c.crowded = c.e.crowd.wake(c.woken)
	}
	o.size, o.recv, o.arrived = r.Bytes, slot, c.now
	if r.RemoteData != nil {
		if err := o.borrow(r.RemoteData, here); err != nil {
			return err
		}
	}
	if !c.authenticated {
		return c.auth(o)
	}
	if c.draining.Load() {
		return nil // the connection ends before an answer is due
	}
	c.heard = true
	if c.pace != nil {
		if err := c.slow(&o.h); err != nil {
			return err
		}
	}
	again := c.follow(o)
	if err := c.hear(&o.h); err != nil {
		return err
	}
	return c.dispatch(o, again)
}

// dispatch hands an authenticated client's message to what answers it. What is
// wrong with it ends the connection or is answered, as package wire says. again
// says that it is a write which was sent on an earlier connection.
//
// Source: [LWIO §I/O Processing] [OP-27] [OP-63] [OP-92e] [OP-92h] [OP-106] [LWIO claim 15]
func (c *conn) dispatch(o *op, again bool) error {
	err := o.h.Check(o.size, c.f.layout.wire)
	if err != nil && wire.Terminates(err) {
		return violation("%w", err)
	}
	io := o.h.Opcode.IO()
	if io && !c.begin(o) {
		return violation("%d requests with %d credits", c.begun, c.credits.grant)
	}
	switch {
	case err != nil:
		c.reply(o, ntstatus.Of(err))
		return nil
	case io && !o.holds:
		c.reply(o, ntstatus.FileClosed)
		return nil
	}
	if o.h.Opcode != wire.OpRead {
		c.postDirects() // they came first
	}
	switch o.h.Opcode {
	case wire.OpRead, wire.OpVecRead:
		c.read(o)
	case wire.OpWrite, wire.OpVecWrite:
		if !again || !c.repeat(o) {
			c.write(o)
		}
	case wire.OpRegister:
		c.register(o)
	case wire.OpClose:
		c.closeFile(o)
	case wire.OpCancel:
		c.cancelFile(o)
	case wire.OpInterrupt:
		c.interrupt(o)
	case wire.OpCredit:
		return c.credit(o)
	default: // wire.OpAuth
		return violation("a second AUTH")
	}
	return nil
}

// reply answers with a status and nothing else, from the loop.
func (c *conn) reply(o *op, status ntstatus.Status) {
	o.status, o.info, o.staged, o.more = status, 0, 0, false
	o.count()
	c.answer(o)
}

// begin counts o among the I/O, finds its file, and takes a reference on it, if
// that is still to be had. It is false if the client has no credit for it, though there
// was a receive.
//
// Source: [OP-53] [OP-55] [OP-58b] [OP-66]
func (c *conn) begin(o *op) bool {
	o.io = true
	c.mu.Lock()
	c.pending++
	c.begun = c.pending
	f := c.fids.get(o.h.Fid)
	if f != nil {
		o.file = f
		f.inFlight++
		if o.holds = f.open.Acquire() == nil; o.holds {
			f.held++
		}
	}
	credit := c.pending <= c.credits.grant
	c.mu.Unlock()
	return credit
}

// final turns the outcome of file I/O into what a client may be told.
//
// Source: [OP-90]
func final(err error) ntstatus.Status {
	s := ntstatus.Of(err)
	if err != nil && !s.Failed() {
		return ntstatus.InternalError // PENDING above all
	}
	return s
}

package rdmaconn

import (
	"context"
	"runtime"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// FileCall is a LOCK, UNLOCK, SYNC, STAT or LOOKUP message and its answer. The caller sets the exported fields, and
// may use it again after Conn.Call, unless the call was given up.
//
// Source: [OP-116]
type FileCall struct {
	// Header is the message, without the fields that the connection sets.
	Header wire.Header
	// Name is the body of LOOKUP, at most CopyWrite bytes. It is not changed.
	Name string
	// Epoch ends when a call that was given up is answered, or its connection is torn down; or nil.
	Epoch *barrier.Epoch

	// Sent reports whether Call has sent the message.
	Sent bool
	// Status is the answer of the server, 0 for success.
	Status uint32
	// Info is the answer to STAT and LOOKUP.
	Info [wire.StatInfoSize]byte

	name     []byte // Name, for the message
	ticket   Ticket
	list     [1]*Ticket
	arrivals Arrivals
	place    *Place
	conn     *Conn
	late     chan error // for the answer to a SYNC that was given up, or nil
	ios      wire.IOStatusBlock
	failed   error
}

// errStatSize ends the connection of a server that describes a file in part.
var errStatSize = base.ProtocolError("the server answered STAT or LOOKUP with less than the information of a file")

// Message makes the message. The information of STAT and LOOKUP goes through the memory of the connection.
func (o *FileCall) Message(s *Request, h *wire.Header, data *Payload) {
	*h, *data = o.Header, Payload{Copied: o.name}
	if h.Opcode.Describes() {
		to := o.conn.BounceAddr(s)
		h.DataVa, h.DataMh = to.Addr, uint32(to.Token)
	}
}

// Deliver copies the information of STAT and LOOKUP.
func (o *FileCall) Deliver(bounce []byte, ios wire.IOStatusBlock) {
	if o.Header.Opcode.Describes() && ios.Status == 0 {
		copy(o.Info[:], bounce)
	}
}

// Answer keeps the answer for the waiting call.
func (o *FileCall) Answer(ios wire.IOStatusBlock, err error) { o.ios, o.failed = ios, err }

// Late returns a channel that receives, after Call has given up a SYNC, its failure, or nil if it succeeded or its
// connection is torn down, and is closed then. Without such a SYNC it returns nil.
func (o *FileCall) Late() <-chan error { return o.late }

// Abandon gives the epoch to the request, and has it keep the answer to a SYNC.
func (o *FileCall) Abandon() *barrier.Epoch {
	if s := o.ticket.request; s.kind == kindSync {
		o.late = make(chan error, 1)
		s.late = o.late
	}
	e := o.Epoch
	o.Epoch = nil
	return e
}

// Unanswered does nothing: the call holds up the teardown, and has taken the request back before.
func (o *FileCall) Unanswered(*Conn) {}

// Call sends a file call and waits for the answer. After an error with Sent, the server has done the call or not.
// Precondition: Limits.FileCalls.
//
// Errors: the error of ctx, with which a sent call is given up; ErrNoCredit; the error of the connection.
//
// Source: [OP-116]
func (c *Conn) Call(ctx context.Context, o *FileCall) error {
	o.Sent = false
	if err := c.Pin(); err != nil {
		return err
	}
	defer c.Unpin()
	c.AddPending(1)
	defer c.AddPending(-1)
	s, err := c.AwaitCredit(ctx)
	if err != nil {
		return err
	}
	o.prepare(ctx, c, s)
	o.Sent = true
	c.Post(o.list[:], true)
	if !c.BusyPoll(&o.ticket) {
		o.arrivals.SleepAt(o.place, 1)
		c.Await(ctx, o.place, &o.arrivals, false)
		if err := o.collect(ctx); err != nil {
			return err
		}
	}
	if o.failed != nil {
		return o.failed
	}
	return o.accept()
}

// prepare makes s, a credit, the request of o.
func (o *FileCall) prepare(ctx context.Context, c *Conn, s *Request) {
	if o.conn != c {
		place := NewPlace(c)
		o.conn, o.place = c, &place
		o.ticket.Owner, o.ticket.To, o.list[0], o.arrivals.Call = o, &o.arrivals, &o.ticket, true
	}
	s.kind, s.want, o.name = kindChange, 0, append(o.name[:0], o.Name...)
	switch o.Header.Opcode {
	case wire.OpSync:
		s.kind = kindSync
	case wire.OpStat:
		s.kind, s.want = kindStat, wire.StatInfoSize
		o.Header.Length = wire.StatInfoSize
	case wire.OpLookup: // of a pace of its own, as the server opens a file
		s.kind, s.want = kindLookup, wire.StatInfoSize
		o.Header.Length = wire.StatInfoSize
	}
	_, s.timed = ctx.Deadline()
	s.buffer, s.again = nil, false
	o.ticket.use(s)
}

// collect waits until the request came back, or gives it up.
func (o *FileCall) collect(ctx context.Context) error {
	c := o.conn
	for came, _ := o.arrivals.Take(); came == nil; came, _ = o.arrivals.Take() {
		switch {
		case c.IsDown():
			if _, ok := c.TakeBack(&o.ticket); ok {
				return c.err
			}
		case ctx.Err() != nil:
			fid := o.Header.Fid
			if c.GiveUp(&o.ticket) {
				c.Cancel(fid)
				return context.Cause(ctx)
			}
		}
		runtime.Gosched() // the goroutine that settled the request is about to hand it over
	}
	return nil
}

// accept keeps the answer, and opens the information of STAT and LOOKUP on a sealed connection.
func (o *FileCall) accept() error {
	o.Status = o.ios.Status
	if !o.Header.Opcode.Describes() || o.Status != 0 {
		return nil
	}
	if o.ios.Information != wire.StatInfoSize {
		o.conn.Fail(errStatSize)
		return o.conn.err
	}
	if o.conn.Sealed() {
		return o.conn.Open(&o.ticket, o.Info[:])
	}
	return nil
}

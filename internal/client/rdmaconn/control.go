package rdmaconn

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// Timeouts by Config.Timeout: of a request, or the wait for a credit.
var (
	ErrTimeout  = fmt.Errorf("no answer from the server: %w", os.ErrDeadlineExceeded)
	ErrNoCredit = fmt.Errorf("no answer to earlier requests from the server: %w", os.ErrDeadlineExceeded)
)

// controlCall is the operation of a message without data, such as REGISTER.
type controlCall struct {
	Ticket
	arrivals Arrivals
	place    Place
	ios      wire.IOStatusBlock
	err      error
}

// Message is not called: a control call makes its own message.
func (o *controlCall) Message(*Request, *wire.Header, *Payload) {}

// Deliver does nothing: the answer has no data.
func (o *controlCall) Deliver([]byte, wire.IOStatusBlock) {}

// Answer keeps the status for the waiting call.
func (o *controlCall) Answer(ios wire.IOStatusBlock, err error) { o.ios, o.err = ios, err }

// Abandon returns nil: a control message writes no data, so no barrier waits for it.
func (o *controlCall) Abandon() *barrier.Epoch { return nil }

// Unanswered does nothing: a control message is not replayed.
func (o *controlCall) Unanswered(*Conn) {}

// control sends a message in entry s and waits for the answer. It frees the entry in any case.
// Precondition: the caller has pinned the connection.
//
// Errors: the error of ctx; ErrTimeout; the error of the connection.
func (c *Conn) control(ctx context.Context, s *Request, h *wire.Header, body []byte) (wire.IOStatusBlock, error) {
	o := &controlCall{place: NewPlace(c)}
	o.Owner, o.To = o, &o.arrivals
	s.kind = kindControl
	_, s.timed = ctx.Deadline()
	o.use(s)
	o.arrivals.SleepAt(&o.place, 1)
	if err := c.send.post(s, h, body); err != nil {
		return o.ios, err
	}
	c.Await(ctx, &o.place, &o.arrivals, false)
	for came, _ := o.arrivals.Take(); came == nil; came, _ = o.arrivals.Take() {
		switch {
		case c.IsDown():
			if _, ok := c.TakeBack(&o.Ticket); ok {
				return o.ios, c.err
			}
		case ctx.Err() != nil:
			if c.GiveUp(&o.Ticket) {
				c.sealing.unanswered.Store(true)
				return o.ios, context.Cause(ctx)
			}
		}
		runtime.Gosched() // the goroutine that settled the request is about to hand it over
	}
	return o.ios, o.err
}

// StatusError is the error of an answer: everything but 0 is a failure.
func StatusError(status uint32) error {
	if status == 0 {
		return nil
	}
	return ntstatus.Status(status)
}

// Register makes the open with the resume key usable on this connection and returns its file id.
//
// Source: [LWIO §File Registration], [OP-54]
func (c *Conn) Register(ctx context.Context, key [24]byte, options uint32) (uint16, error) {
	if err := c.Pin(); err != nil {
		return 0, err
	}
	defer c.Unpin()
	c.AddPending(1)
	defer c.AddPending(-1)
	s, err := c.AwaitCredit(ctx)
	if err != nil {
		return 0, err
	}
	h := wire.NewRegister()
	params := wire.FIDParams{ResumeKey: key, SessionID: c.sessionID, FlagsAndAttributes: options}
	ios, err := c.control(ctx, s, &h, params.AppendTo(make([]byte, 0, wire.FIDParamsSize)))
	if err == nil {
		err = StatusError(ios.Status)
	}
	if err != nil {
		return 0, err
	}
	fid, err := wire.RegisteredFid(ios.Information)
	if err != nil {
		c.Fail(base.ProtocolError("%v", err))
		return 0, c.err
	}
	return fid, nil
}

// CloseFid tells the server that the file id is not used any more, and to give up the requests in
// flight. It does not wait for the answer. Without a free credit, CANCEL goes out with the next
// credit, and CLOSE is not sent: closing the SMB open revokes the file id anyway.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-94e]
func (c *Conn) CloseFid(fid uint16) {
	if c.Pin() != nil {
		return
	}
	defer c.Unpin()
	c.AddPending(1)
	defer c.AddPending(-1)
	c.credits.cancel(fid, true)
	s := c.table.free.take()
	if s == nil {
		return
	}
	// Without a connection the file id is gone too.
	_ = c.send.postDetached(s, kindControl, func() (wire.Header, bool) { return wire.NewClose(fid), true })
}

// TakeCredits takes up to n credits that are next to each other in the request table. It takes
// none if other calls wait. ReturnCredits gives back those that NextCredit did not take out.
func (c *Conn) TakeCredits(n int) Credits { return c.table.free.takeSome(n) }

// NextCredit takes one credit out of a set, or returns nil if the set is empty.
func (c *Conn) NextCredit(set *Credits) *Request { return c.table.free.next(set) }

// ReturnCredits gives back the credits of a set.
func (c *Conn) ReturnCredits(set Credits) { c.credits.putBack(set) }

// Release gives back the credit of a request that was not posted.
func (c *Conn) Release(s *Request) { c.credits.release(s) }

// AwaitCredit takes a credit. It waits until ctx ends or, if ctx has no deadline, for
// Config.Timeout.
//
// Errors: the error of ctx; ErrNoCredit; the error of the connection.
func (c *Conn) AwaitCredit(ctx context.Context) (*Request, error) {
	if s := c.table.free.take(); s != nil {
		return s, nil
	}
	c.progress.require()
	defer c.progress.poller.Unblock()
	var late <-chan time.Time
	if _, timed := ctx.Deadline(); !timed {
		t := c.timers.start(c.cfg.Timeout)
		defer c.timers.Put(t)
		defer t.Stop()
		late = t.C
	}
	place := c.table.free.join()
	defer func() {
		c.table.free.leave(place)
		c.credits.pumpIfNeeded()
	}()
	select {
	case s := <-place:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.down:
		return nil, c.err
	case <-late:
		return nil, ErrNoCredit
	}
}

// timerPool keeps timers for the next calls that wait for a credit.
type timerPool struct{ sync.Pool }

// start starts a timer.
func (p *timerPool) start(d time.Duration) *time.Timer {
	t, ok := p.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	t.Reset(d)
	return t
}

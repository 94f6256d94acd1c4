package smbclient

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// wait returns the response to a request, verified. The caller frees it.
//
// Errors: the error of ctx, errTimeout, the end of the connection. A status of the server
// is no error.
func (c *conn) wait(ctx context.Context, p *pending) (*response, error) {
	select {
	case r := <-p.done:
		return c.verify(p, r)
	default:
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	for {
		select {
		case r := <-p.done:
			return c.verify(p, r)
		case <-ctx.Done():
			if p.blocking {
				return c.takeBack(ctx, p)
			}
			c.abandon(p, true)
			return nil, ctx.Err()
		case <-timer.C:
			if c.requests.blocked(p) {
				continue // the timer does not fire again
			}
			c.abandon(p, true)
			if p.blocking {
				return nil, &undecidedError{errTimeout}
			}
			return nil, errTimeout
		case <-c.end.down:
		}
		select {
		case r := <-p.done:
			return c.verify(p, r)
		default:
			return nil, c.end.cause()
		}
	}
}

// takeBack cancels a blocking request whose context has ended, and waits up to cancelGrace
// for its outcome: a request that the server has executed by then succeeds. Without an outcome the
// error is an undecidedError.
//
// Source: [MS-SMB2 3.2.4.24]
func (c *conn) takeBack(ctx context.Context, p *pending) (*response, error) {
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer stop()
	c.cancel(grace, p)
	select {
	case r := <-p.done:
		r, err := c.verify(p, r)
		if err != nil || r.Status != ntstatus.Cancelled {
			return r, err
		}
		c.free(r)
		return nil, ctx.Err()
	case <-grace.Done():
		c.abandon(p, false)
	case <-c.end.down:
	}
	return nil, &undecidedError{timely(ctx.Err())}
}

// verify checks the signature of a response that was not encrypted. A wrong signature ends
// the connection. After LOGOFF the server has no key to sign "the session is deleted", and
// the client does not trust it: the call fails with the end of the session, and its outcome
// is unknown. Such a response is unsigned, or repeats the signature of the request.
//
// Source: [MS-SMB2 3.2.5.1.3]
func (c *conn) verify(p *pending, r *response) (*response, error) {
	signed := r.Flags&smbwire.FlagSigned != 0
	keyless := !signed || r.Signature == p.signature
	switch signer := c.agreed.signer; {
	case r.encrypted, signer == nil, signed && signer.Verify(r.msg):
		return r, nil
	case keyless && r.Status == ntstatus.UserSessionDeleted && c.leaving.Load():
		c.free(r)
		return nil, &lostError{net.ErrClosed}
	}
	c.fail(fmt.Errorf("the response to %v: %w", r.Command, ErrSignature))
	c.free(r)
	return nil, c.end.cause()
}

// abandon gives up a request; no call waits for its response. cancel makes the server stop
// it. A response that has arrived already is handled as a late response.
//
// Source: [MS-SMB2 3.2.4.24]
func (c *conn) abandon(p *pending, cancel bool) {
	if p.changes != nil {
		p.changes.unsettled.add()
	}
	if c.requests.abandon(p) {
		if cancel && p.command != smbwire.CommandClose { // a CLOSE must be executed
			c.janitor.do(func(ctx context.Context) { c.cancel(ctx, p) })
		}
		return
	}
	select {
	case r := <-p.done:
		c.receiveLate(p, r)
	default: // the connection has ended
	}
}

// receiveLate handles the response to an abandoned request.
func (c *conn) receiveLate(p *pending, r *response) {
	if p.late == nil && p.changes == nil {
		c.free(r)
		return
	}
	c.janitor.do(func(ctx context.Context) {
		r, err := c.verify(p, r)
		if err != nil {
			return
		}
		if p.late != nil {
			p.late(ctx, r)
		}
		if p.changes != nil {
			p.changes.unsettled.done()
		}
		c.free(r)
	})
}

// cancel asks the server to stop working on p.
//
// Source: [MS-SMB2 2.2.30]
func (c *conn) cancel(ctx context.Context, p *pending) {
	h, ok := c.requests.cancelHeader(p)
	if !ok || c.writer.acquire(ctx) != nil {
		return
	}
	defer c.writer.release()
	h.SessionID = c.agreed.sessionID
	e := c.encrypting()
	head := e.headSize()
	b := h.AppendTo(make([]byte, head, head+smbwire.HeaderSize+8+smbauth.TagSize))
	b = smbwire.Empty{}.AppendTo(b)
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	c.agreed.finish(&h, b[head:], e != nil)
	b, err := e.encrypt(b)
	if err != nil {
		c.fail(err)
		return
	}
	_ = c.write(ctx, b) // an error has ended the connection, and with it p
}

// call sends one request and returns its response, whose status is Success or one of more.
// The caller frees it. A request that the server refuses because the authentication of the session
// has ended is sent again after the renewal.
//
// Errors: any other status of the server, net.ErrClosed if LOGOFF of this side caused it,
// and the errors of wait.
func (c *conn) call(ctx context.Context, q request, more ...ntstatus.Status) (*response, error) {
	list, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	r, err := c.result(ctx, list[0], more...)
	if again, err := c.renewed(ctx, list[0], err); !again {
		return r, err
	}
	return c.exchange(ctx, q, more...)
}

// exchange is call without a second request.
func (c *conn) exchange(ctx context.Context, q request, more ...ntstatus.Status) (*response, error) {
	list, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.result(ctx, list[0], more...)
}

// run is call for a request whose response has no content.
func (c *conn) run(ctx context.Context, q request) error {
	r, err := c.call(ctx, q)
	c.free(r)
	return err
}

// result waits for one of the requests that send has sent, as call does.
func (c *conn) result(ctx context.Context, p *pending, more ...ntstatus.Status) (*response, error) {
	r, err := c.wait(ctx, p)
	if err != nil {
		return nil, err
	}
	if r.Status == ntstatus.Success || slices.Contains(more, r.Status) {
		return r, nil
	}
	st := r.Status
	c.free(r)
	switch {
	case !st.Failed():
		return nil, fmt.Errorf("%w: unexpected %w", ErrProtocol, st)
	case c.leaving.Load() && slices.Contains(logoffStatuses, st):
		return nil, loggedOffError{st}
	}
	return nil, st
}

// logoffStatuses are the statuses of requests that the server refuses after LOGOFF.
var logoffStatuses = []ntstatus.Status{
	ntstatus.UserSessionDeleted, ntstatus.NetworkNameDeleted, ntstatus.FileClosed, ntstatus.Cancelled,
}

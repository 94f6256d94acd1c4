package smbclient

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// wait returns the answer to a request, verified. The caller frees it.
//
// Errors: that of ctx, errTimeout, a lost connection. A status of the server is
// none.
func (c *conn) wait(ctx context.Context, p *pending) (*response, error) {
	select {
	case r := <-p.done:
		return c.verify(r)
	default:
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	for {
		select {
		case r := <-p.done:
			return c.verify(r)
		case <-ctx.Done():
			if p.patient {
				return c.takeBack(ctx, p)
			}
			c.abandon(p, true)
			return nil, ctx.Err()
		case <-timer.C:
			if c.waits(p) {
				continue // the timer does not fire again
			}
			c.abandon(p, true)
			return nil, errTimeout
		case <-c.down:
		}
		select {
		case r := <-p.done:
			return c.verify(r)
		default:
			return nil, c.broken()
		}
	}
}

// takeBack cancels a patient request whose context has ended, and waits a moment for what
// becomes of it: what was done by then need not be undone.
//
// Source: [MS-SMB2 3.2.4.24]
func (c *conn) takeBack(ctx context.Context, p *pending) (*response, error) {
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer stop()
	c.cancel(grace, p)
	select {
	case r := <-p.done:
		r, err := c.verify(r)
		if err != nil || r.Status != ntstatus.Cancelled {
			return r, err
		}
		c.free(r)
	case <-grace.Done():
		c.abandon(p, false)
	case <-c.down:
	}
	return nil, ctx.Err()
}

// waits reports whether the server has said that a patient request takes time.
func (c *conn) waits(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.patient && p.async
}

// verify checks an answer's signature. A wrong one ends the connection. After LOGOFF there is
// no key at the server to sign with that the session is gone, and it need not be believed:
// the call is over with the session, and nobody knows what became of it.
//
// Source: [MS-SMB2 3.2.5.1.3]
func (c *conn) verify(r *response) (*response, error) {
	switch {
	case c.signer == nil, r.Flags&smbwire.FlagSigned == 0 && !c.signed(r.Command):
		return r, nil
	case r.Flags&smbwire.FlagSigned != 0 && c.signer.Verify(r.msg):
		return r, nil
	case r.Flags&smbwire.FlagSigned == 0 && r.Status == ntstatus.UserSessionDeleted && c.leaving.Load():
		c.free(r)
		return nil, &lostError{net.ErrClosed}
	}
	c.fail(fmt.Errorf("the answer to %v: %w", r.Command, ErrSignature))
	c.free(r)
	return nil, c.broken()
}

// abandon gives a request up whose answer nobody will wait for; cancel tells the
// server. An answer that has come already is dealt with as a late one.
//
// Source: [MS-SMB2 3.2.4.24]
func (c *conn) abandon(p *pending, cancel bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.changes != nil {
		p.changes.unsettled.addLocked()
	}
	if _, ok := c.pending[p.id]; ok {
		p.abandoned = true
		if cancel && p.command != smbwire.CommandClose { // a CLOSE is to be executed all the same
			c.doLocked(func(ctx context.Context) { c.cancel(ctx, p) })
		}
		return
	}
	select {
	case r := <-p.done:
		c.lateLocked(p, r)
	default: // the connection has ended
	}
}

// cancel asks the server to stop working on p.
//
// Source: [MS-SMB2 2.2.30]
func (c *conn) cancel(ctx context.Context, p *pending) {
	c.mu.Lock()
	_, ok := c.pending[p.id]
	h := smbwire.Header{Command: smbwire.CommandCancel, MessageID: p.id, TreeID: p.treeID, SessionID: c.sessionID}
	if p.async {
		h.Flags, h.AsyncID, h.TreeID = smbwire.FlagAsync, p.asyncID, 0
	}
	c.mu.Unlock()
	if !ok || c.turn(ctx) != nil {
		return
	}
	defer func() { c.writing <- struct{}{} }()
	b := h.AppendTo(make([]byte, smbwire.FrameHeaderSize, smbwire.FrameHeaderSize+smbwire.HeaderSize+8))
	b = smbwire.Empty{}.AppendTo(b)
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	c.seal(&h, b[smbwire.FrameHeaderSize:])
	_ = c.write(ctx, b) // the connection has ended then, and everybody knows
}

// call sends one request and returns its answer, whose status is Success or one
// of more. The caller frees it.
//
// Errors: the server's ntstatus.Status for any other, net.ErrClosed if it comes of this side's
// LOGOFF, and those of wait.
func (c *conn) call(ctx context.Context, p part, more ...ntstatus.Status) (*response, error) {
	list, err := c.send(ctx, p)
	if err != nil {
		return nil, err
	}
	return c.result(ctx, list[0], more...)
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
	case c.leaving.Load() && slices.Contains(endings, st):
		return nil, overError{st}
	}
	return nil, st
}

// endings are what the server says of a request that LOGOFF was faster than.
var endings = []ntstatus.Status{
	ntstatus.UserSessionDeleted, ntstatus.NetworkNameDeleted, ntstatus.FileClosed, ntstatus.Cancelled,
}

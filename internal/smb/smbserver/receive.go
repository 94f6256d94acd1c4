package smbserver

import (
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// unauthenticatedLimit bounds a message before anybody has authenticated: a
// session set-up with the longest token that its fields can describe.
const unauthenticatedLimit = 68 << 10

// transferSlack is what a message may hold beside the largest payload.
const transferSlack = 64 << 10

// job is one received message: a chain of one request or several.
type job struct {
	conn  *conn
	frame *buffer
	reqs  []*request
}

// receive reads the next message and does what must be done in order. It
// returns the rest of the work, nil if there is none. An error ends the
// connection. The caller holds the turn.
//
// Source: [MS-SMB2 3.3.5.2]
func (c *conn) receive() (*job, error) {
	limit := unauthenticatedLimit
	if c.authenticated() {
		limit = c.srv.cfg.MaxTransferSize + transferSlack
	}
	frame, err := c.frames.next(c.ctx, limit, c.user)
	if err != nil {
		return nil, err
	}
	c.srv.stats.requests.Add(1)
	if err := smbwire.CheckProtocol(frame.b); errors.Is(err, smbwire.ErrSMB1) {
		defer frame.free()
		return nil, c.smb1Negotiate(frame.b)
	}
	j := &job{conn: c, frame: frame}
	if err := j.parse(); err != nil {
		frame.free()
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	switch {
	case len(j.reqs) == 0:
		frame.free()
		return nil, nil
	case j.reqs[0].inOrder():
		j.run()
		if c.authFailures >= maxAuthFailures {
			return nil, errGuessing
		}
		return nil, c.ctx.Err()
	}
	return j, nil
}

// parse splits the message into requests, uses up their message ids, and
// obeys CANCEL, which has neither id nor answer of its own.
//
// Source: [MS-SMB2 3.3.5.2.2], [MS-SMB2 3.3.5.2.3], [MS-SMB2 3.3.5.2.7], [MS-SMB2 3.3.5.16]
func (j *job) parse() error {
	c := j.conn
	ch := &chain{}
	for more := j.frame.b; more != nil; {
		h, msg, rest, err := smbwire.Next(more)
		more = rest
		switch {
		case err != nil:
			return err
		case h.Flags&smbwire.FlagResponse != 0:
			return errors.New("a client sends an answer")
		case !c.ready() && h.Command != smbwire.CommandNegotiate:
			return fmt.Errorf("%v before negotiation", h.Command)
		case h.Command == smbwire.CommandCancel:
			id := h.MessageID
			if h.Flags&smbwire.FlagAsync != 0 {
				id = h.AsyncID
			}
			c.stop(id)
			continue
		}
		r := &request{conn: c, hdr: h, msg: msg, chain: ch, first: len(j.reqs) == 0, charge: 1}
		if c.multiCredit {
			r.charge = max(h.CreditCharge, 1)
		}
		if !c.credits.take(h.MessageID, r.charge) {
			return fmt.Errorf("message id %d, charge %d: not the client's to use", h.MessageID, r.charge)
		}
		if r.inOrder() && (len(j.reqs) > 0 || more != nil) {
			return fmt.Errorf("%v in a chain", h.Command)
		}
		if h.Command == smbwire.CommandLock {
			r.stopped, r.done = c.cancelable(c.patience, h.MessageID) // its CANCEL may come next
		}
		j.reqs = append(j.reqs, r)
	}
	return nil
}

// run works the requests off, one after the other, and sends the answers: in
// one message, or in several if they are too long for one.
//
// Source: [MS-SMB2 3.3.5.2.7], [MS-SMB2 3.3.4.1.3]
func (j *job) run() {
	c := j.conn
	defer j.frame.free()
	var outs []*buffer
	var last *request // served, and not yet finished
	var st ntstatus.Status
	total := 0
	for i, r := range j.reqs {
		r.alone = len(j.reqs) == 1
		next := r.serve()
		if r.parked {
			return // it was the only one
		}
		if r.done != nil {
			r.done()
		}
		if r.dropped {
			for _, o := range outs {
				o.free()
			}
			return
		}
		if i > 0 {
			more := total+last.size()+r.size() <= smbwire.MaxFrame
			last.finish(st, more)
			outs, total = append(outs, last.out), total+len(last.out.b)
			if !more {
				c.write(outs...)
				outs, total = nil, 0
			}
		}
		last, st = r, next
	}
	last.finish(st, false)
	if outs == nil {
		c.write(last.out)
		return
	}
	c.write(append(outs, last.out)...)
}

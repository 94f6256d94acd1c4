package smbserver

import (
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// compound is the state that related requests of one message share.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
type compound struct {
	sessionID uint64
	treeID    uint32
	file      smbwire.FileID
	haveFile  bool
	failed    ntstatus.Status // of the request that should have opened the file
}

// enter adds a request to the compound. A related request gets the session and tree connect
// of the request before it; any other request resets the state. enter reports false for a
// first request that claims to be related.
func (c *compound) enter(h *smbwire.Header, first bool) bool {
	if h.Flags&smbwire.FlagRelated != 0 {
		if first {
			return false
		}
		h.SessionID, h.TreeID = c.sessionID, c.treeID
		return true
	}
	*c = compound{sessionID: h.SessionID, treeID: h.TreeID}
	return true
}

// setFile sets the file of related requests.
func (c *compound) setFile(id smbwire.FileID) { c.file, c.haveFile = id, true }

// fileID returns the file of a related request, or the status if there is none.
func (c *compound) fileID() (smbwire.FileID, ntstatus.Status) {
	switch {
	case c.haveFile:
		return c.file, ntstatus.Success
	case c.failed != ntstatus.Success:
		return smbwire.FileID{}, c.failed
	}
	return smbwire.FileID{}, ntstatus.InvalidParameter
}

// note records the status of a request for the related requests that follow.
func (c *compound) note(st ntstatus.Status) {
	if st.Failed() && !c.haveFile && c.failed == ntstatus.Success {
		c.failed = st
	}
}

// message is one received message: a single request, or a compound of several.
type message struct {
	conn      *conn
	frame     *smbbuf.Buffer
	data      []byte   // of the frame: the requests, decrypted
	encrypted *Session // has encrypted the message; nil if it is not encrypted
	reqs      []*request
}

// parse splits the message into requests, uses up their message ids, and executes CANCEL,
// which has neither id nor response of its own.
//
// Source: [MS-SMB2 3.3.5.2.1.1], [MS-SMB2 3.3.5.2.2], [MS-SMB2 3.3.5.2.3], [MS-SMB2 3.3.5.2.7],
// [MS-SMB2 3.3.5.16]
func (m *message) parse() error {
	c := m.conn
	shared := &compound{}
	for more := m.data; more != nil; {
		h, msg, rest, err := smbwire.Next(more)
		more = rest
		switch {
		case err != nil:
			return err
		case h.Flags&smbwire.FlagResponse != 0:
			return errors.New("a response from a client")
		case !c.agreed.ready() && h.Command != smbwire.CommandNegotiate:
			return fmt.Errorf("%v before negotiation", h.Command)
		case m.encrypted != nil && h.Flags&smbwire.FlagRelated == 0 && h.SessionID != m.encrypted.id:
			return fmt.Errorf("%v of session %#x, encrypted by session %#x", h.Command, h.SessionID, m.encrypted.id)
		case h.Command == smbwire.CommandCancel:
			m.cancel(&h, msg)
			continue
		}
		r := newRequest(m, &h, msg)
		r.compound, r.first = shared, len(m.reqs) == 0
		if !c.credits.take(h.MessageID, r.charge) {
			return fmt.Errorf("message id %d, charge %d: outside the credits of the client", h.MessageID, r.charge)
		}
		if r.inOrder() && (len(m.reqs) > 0 || more != nil) {
			return fmt.Errorf("%v in a compound", h.Command)
		}
		if h.Command == smbwire.CommandLock {
			r.waitCtx, r.waitDone = c.cancels.add(c.waits, h.MessageID) // its CANCEL may come next
		}
		m.reqs = append(m.reqs, r)
	}
	return nil
}

// run serves the requests in order and sends the responses: in one message, or in several
// if they are too long for one.
//
// Source: [MS-SMB2 3.3.5.2.7], [MS-SMB2 3.3.4.1.3]
func (m *message) run() {
	c := m.conn
	defer m.frame.Free()
	var outs []*smbbuf.Buffer
	var last *request // served, and not yet finished
	var st ntstatus.Status
	total, limit := 0, smbwire.MaxFrame
	if m.encrypted != nil {
		limit = maxEncryptedCompound
	}
	for i, r := range m.reqs {
		r.single = len(m.reqs) == 1
		next := r.serve()
		if r.parked {
			return // it is the only request
		}
		if r.waitDone != nil {
			r.waitDone()
		}
		if r.dropped {
			for _, o := range outs {
				o.Free()
			}
			if last != nil {
				last.resp.discard()
			}
			return
		}
		if i > 0 {
			more := total+last.resp.size()+r.resp.size() <= limit
			last.resp.finish(st, more)
			outs, total = append(outs, last.resp.out), total+len(last.resp.out.B)
			if !more {
				c.write(m.encrypted, outs...)
				outs, total = nil, 0
			}
		}
		last, st = r, next
	}
	last.resp.finish(st, false)
	if outs == nil {
		c.write(m.encrypted, last.resp.out)
		return
	}
	c.write(m.encrypted, append(outs, last.resp.out)...)
}

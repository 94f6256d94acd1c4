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
	lost      bool            // the last request had no session or no tree connect

	whole   bool            // a failed request ends the execution, but for CLOSE
	stopped ntstatus.Status // of the failed request
}

// enter adds a request to the compound. A related request gets the session and tree connect
// of the request before it; any other request resets the state. enter reports false for a
// related request that is the first, or follows a request without a session or tree connect.
func (c *compound) enter(h *smbwire.Header, first bool) bool {
	if h.Flags&smbwire.FlagRelated != 0 {
		if c.lost = c.lost || first; c.lost {
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
	if st.Failed() && c.whole && c.stopped == ntstatus.Success {
		c.stopped = st
	}
}

// stops returns the status of an earlier request whose failure ends the execution of a request with that command.
// CLOSE is executed all the same.
func (c *compound) stops(command smbwire.Command) ntstatus.Status {
	if command == smbwire.CommandClose {
		return ntstatus.Success
	}
	return c.stopped
}

// message is one received message: a single request, or a compound of several.
type message struct {
	conn      *conn
	frame     *smbbuf.Buffer
	data      []byte   // of the frame: the requests, decrypted
	encrypted *Session // has encrypted the message; nil if it is not encrypted
	most      int      // requests for which frame is charged
	reqs      []*request
	answers   answers
}

const (
	// goroutineMemory is the memory of the goroutine that serves a message, in bytes. It is
	// charged with the message.
	goroutineMemory = 8 << 10
	// requestMemory is the memory of the tables of one request, in bytes.
	requestMemory = 768
	// maxCompound bounds the requests of a message. A message that may be a compound is charged
	// for that many, or for as many as fit into it, until it is parsed.
	maxCompound = 128
)

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
		if len(m.reqs) == m.most {
			return fmt.Errorf("a compound of more than %d requests", m.most)
		}
		r := newRequest(m, &h, msg)
		r.compound, r.answers, r.first = shared, &m.answers, len(m.reqs) == 0
		if !c.credits.take(h.MessageID, r.charge) {
			return fmt.Errorf("message id %d, charge %d: outside the credits of the client", h.MessageID, r.charge)
		}
		if len(m.reqs) > 0 || more != nil {
			switch {
			case r.inOrder():
				return fmt.Errorf("%v in a compound", h.Command)
			case !c.sessions.authenticated():
				return errors.New("a compound before authentication")
			}
		}
		if h.Command == smbwire.CommandLock || h.Command == smbwire.CommandChangeNotify {
			r.waitCtx, r.waitDone = c.cancels.add(c.waits, h.MessageID) // its CANCEL may come next
		}
		m.reqs = append(m.reqs, r)
	}
	m.frame.Charge.Reduce(int64(m.most-max(len(m.reqs), 1)) * requestMemory)
	return nil
}

// size returns the memory of the message, in bytes.
func (m *message) size() int64 { return m.frame.Charge.Bytes() }

// drop frees a message that is not served.
func (m *message) drop() {
	for _, r := range m.reqs {
		if r.waitDone != nil {
			r.waitDone()
		}
	}
	m.free()
}

// free frees the memory of the message.
func (m *message) free() {
	m.frame.Free()
	m.frame, m.data = nil, nil // a parked request refers to m
}

// run serves the requests in order and sends the responses: in one message, or in several
// if they are too long for one.
//
// Source: [MS-SMB2 3.3.5.2.7], [MS-SMB2 3.3.4.1.3]
func (m *message) run() {
	defer m.free()
	m.answers = answers{conn: m.conn, encrypted: m.encrypted, limit: smbwire.MaxFrame}
	if m.encrypted != nil {
		m.answers.limit = maxEncryptedCompound
	}
	for i, r := range m.reqs {
		r.single, r.last = len(m.reqs) == 1, i == len(m.reqs)-1
		st := r.serve()
		if r.parked {
			return // it is the last request
		}
		if r.waitDone != nil {
			r.waitDone()
		}
		if r.dropped {
			m.answers.discard()
			return
		}
		m.answers.add(r, st)
	}
	m.answers.flush()
}

// answers are the responses to a message that are not sent yet.
//
// Source: [MS-SMB2 3.3.4.1.3]
type answers struct {
	conn      *conn
	encrypted *Session         // has encrypted the message, or nil
	limit     int              // of the bytes of one message
	outs      []*smbbuf.Buffer // finished
	total     int              // bytes of outs
	last      *request         // served, and not finished
	answered  []func()         // of outs
	st        ntstatus.Status  // of last
}

// add adds the response of a request that was served. If all responses are too long for one
// message, add sends the earlier ones.
func (a *answers) add(r *request, st ntstatus.Status) {
	if a.last != nil {
		if a.total+a.last.resp.size()+r.resp.size() > a.limit {
			a.flush()
		} else {
			a.finish(true)
		}
	}
	a.last, a.st = r, st
}

// finish finishes the last response. more says that another response of the same message follows.
func (a *answers) finish(more bool) {
	p := &a.last.resp
	p.finish(a.st, more)
	if f := a.last.answered; f != nil {
		a.answered = append(a.answered, f)
	}
	a.outs, a.total, a.last = append(a.outs, p.out), a.total+len(p.out.B), nil
}

// flush sends the responses in one message.
func (a *answers) flush() {
	if a.last == nil {
		return
	}
	a.finish(false)
	a.conn.write(a.encrypted, a.outs...)
	for _, f := range a.answered {
		f()
	}
	a.outs, a.total, a.answered = nil, 0, nil
}

// discard frees the responses.
func (a *answers) discard() {
	for _, o := range a.outs {
		o.Free()
	}
	if a.last != nil {
		a.last.resp.discard()
	}
	a.outs, a.last = nil, nil
}

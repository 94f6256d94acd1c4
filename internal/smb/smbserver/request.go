package smbserver

import (
	"context"
	"errors"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// interimDelay is how long a pipe may take before the client gets an interim response.
//
// Source: [MS-SMB2 3.3.5.15.3]
const interimDelay = time.Millisecond

// request is the context in which one request of a message is served. It belongs to the
// goroutine that serves it.
type request struct {
	conn     *conn
	hdr      smbwire.Header
	msg      []byte // header, body and padding
	compound *compound
	answers  *answers // of the message
	// encrypted is the session that has encrypted the message, and for which the response is
	// encrypted; nil for a message that is not encrypted.
	encrypted *Session
	first     bool // the first request of its message
	single    bool // the only request of its message, or parked
	last      bool // the last request of its message
	charge    uint16

	session *Session
	tree    *tree
	tracker tracker
	resp    response

	answered func() // called when the response has been sent, if not nil

	repeats bool // a CREATE whose open an earlier CREATE has made
	dropped bool // no response: the connection is being cut
	parked  bool // a goroutine of the request's own sends the response

	// Set for LOCK and CHANGE_NOTIFY: waitCtx ends with CANCEL until waitDone is called.
	waitCtx  context.Context
	waitDone func()
}

// newRequest returns the context of a request of a message.
func newRequest(m *message, h *smbwire.Header, msg []byte) *request {
	c := m.conn
	r := &request{conn: c, hdr: *h, msg: msg, encrypted: m.encrypted, charge: 1}
	if c.agreed.multiCredit {
		r.charge = max(h.CreditCharge, 1)
	}
	r.resp = response{conn: c, hdr: &r.hdr, charge: r.charge, user: c.user}
	return r
}

// ordered reports whether the message is served before the next one is read: messages with one of
// the requests of inOrder, and a CHANGE_NOTIFY, because changes go to the requests in their order.
func (m *message) ordered() bool {
	return m.reqs[0].inOrder() || len(m.reqs) == 1 && m.reqs[0].hdr.Command == smbwire.CommandChangeNotify
}

// prompt reports whether the message is served at once: an ECHO asks whether the server is alive, and
// waits for no other request. Other requests can wait for the acknowledgement of a break, and it waits for none.
func (m *message) prompt() bool {
	if len(m.reqs) != 1 {
		return false
	}
	c := m.reqs[0].hdr.Command
	return c == smbwire.CommandEcho || c == smbwire.CommandOplockBreak
}

// inOrder reports whether the request is served before the next message is read, and is no part of a
// compound.
func (r *request) inOrder() bool {
	return r.hdr.Command == smbwire.CommandNegotiate || r.hdr.Command == smbwire.CommandSessionSetup
}

// body returns the body of the request.
func (r *request) body() []byte { return r.msg[smbwire.HeaderSize:] }

// drop cuts the connection instead of sending a response.
func (r *request) drop(cause error) ntstatus.Status {
	r.dropped = true
	r.resp.discard()
	r.conn.cut(cause)
	return ntstatus.ConnectionDisconnected
}

// open returns the open that a request names, or the status if there is none.
//
// Source: [MS-SMB2 3.3.5.2.7.2], [MS-SMB2 3.3.5.10]
func (r *request) open(id smbwire.FileID) (*open, ntstatus.Status) {
	if id == smbwire.RelatedFileID && r.hdr.Flags&smbwire.FlagRelated != 0 {
		var st ntstatus.Status
		if id, st = r.compound.fileID(); st != ntstatus.Success {
			return nil, st
		}
	}
	o := r.session.handles.open(id.Volatile)
	if o == nil || id.Persistent != o.persistent || o.tree != r.tree {
		return nil, ntstatus.FileClosed
	}
	if o.durable != nil {
		r.tracker.ofOpen(&o.durable.requests)
		if r.session.handles.open(id.Volatile) != o { // the session has lost it meanwhile
			return nil, ntstatus.FileClosed
		}
	}
	r.compound.setFile(id)
	return o, ntstatus.Success
}

// paid reports whether the credit charge covers the larger of the two payloads, in bytes.
//
// Source: [MS-SMB2 3.3.5.2.5]
func (r *request) paid(sent, expected uint32) bool {
	return uint64(max(sent, expected)) <= uint64(r.charge)*smbwire.CreditUnit
}

// allows reports whether both payloads, in bytes, are within the negotiated size and paid.
func (r *request) allows(sent, expected uint32) bool {
	return max(sent, expected) <= r.conn.agreed.maxTransfer && r.paid(sent, expected)
}

// throttle delays the request while its user is above the configured rates.
func (r *request) throttle(requests, bytes int) ntstatus.Status {
	wait := r.session.limiter.Take(requests, bytes)
	if wait == 0 {
		return ntstatus.Success
	}
	r.conn.srv.stats.slowed.Add(1)
	if ratelimit.Sleep(r.session.ctx, wait) != nil {
		return ntstatus.UserSessionDeleted
	}
	return ntstatus.Success
}

// smallBody is the length of the body that the smallest reserved response has room for, in bytes.
const smallBody = 512

// reserve charges the user for a response with n bytes of body, and waits until the memory is
// available. Before it waits, it sends the responses to the earlier requests of the message: a
// request that waits must hold no memory of other responses, because their memory may be needed
// for the requests before it in the queue. reserve returns false if the connection is being cut.
func (r *request) reserve(n int) bool {
	c, p := r.conn, &r.resp
	size := int64(smbbuf.Size(bufferSize(n)))
	if p.memory.Bytes() >= size {
		return true
	}
	p.memory.Return()
	var ok bool
	if p.memory, ok = c.memory.TryCharge(p.user, size, account.Last); ok {
		return true
	}
	r.answers.flush()
	var err error
	if p.memory, err = c.memory.Charge(c.ctx, p.user, size, account.Last); err != nil {
		r.drop(err)
		return false
	}
	return true
}

// interim sends the client an interim response; the response is then a message of its own.
// A request of a compound has no interim response.
func (r *request) interim() {
	if r.single {
		r.resp.sendInterim(func(out *smbbuf.Buffer) { r.conn.write(r.encrypted, out) })
	}
}

// waiting runs f, which may block, and sends an interim response if it does. The context
// ends with CANCEL.
func (r *request) waiting(f func(ctx context.Context) ntstatus.Status) ntstatus.Status {
	ctx, done := r.conn.cancels.add(r.session.ctx, r.hdr.MessageID)
	defer done()
	defer time.AfterFunc(interimDelay, r.interim).Stop()
	return f(ctx)
}

// statusOf returns the status for an error of a layer below.
func statusOf(err error) ntstatus.Status {
	var st ntstatus.Status
	if errors.As(err, &st) {
		return st
	}
	return ntstatus.Of(err)
}

package smbclient

import (
	"context"
	"fmt"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// request is one request to send, alone or in a compound.
type request struct {
	command smbwire.Command
	body    interface{ AppendTo([]byte) []byte }
	treeID  uint32
	// payload is the length of the data that go with the request or its response, whichever
	// is longer, in bytes.
	payload int
	// late is called with a response that arrives after the request was abandoned.
	late func(context.Context, *response)
	// blocking requests may take any time after an interim response. When their context
	// ends they are cancelled, and the caller learns the outcome.
	blocking bool
	// replay marks the repetition of a request whose response was lost.
	replay bool
	// changes is the file that the request may change; nil if it changes none.
	changes *File
}

// pending is a request without a final response.
type pending struct {
	command  smbwire.Command
	id       uint64
	treeID   uint32
	charge   int
	limit    int // of the message with the response, in bytes
	late     func(context.Context, *response)
	blocking bool
	changes  *File
	// encrypted requests have encrypted responses only.
	encrypted bool
	done      chan *response // has room for the response
	epoch     uint32         // of renewal, when the request was sent

	signature [16]byte // of the request; zero without a key

	// Guarded by requestTable.mu.
	abandoned bool
	async     bool // an interim response has arrived
	asyncID   uint64
}

// response is one response. Its owner calls conn.free.
type response struct {
	smbwire.Header
	msg       []byte // from the header on
	buf       *smbbuf.Buffer
	encrypted bool // msg is decrypted
}

// body returns the bytes that follow the header.
func (r *response) body() []byte { return r.msg[smbwire.HeaderSize:] }

// requestTable holds the requests of a connection that have no final response. It is safe
// for concurrent use.
type requestTable struct {
	credits *credits

	mu     sync.Mutex
	nextID uint64
	byID   map[uint64]*pending
}

// add gives requests their ids and adds them to the table. limit bounds the message with
// their responses, in bytes; charge returns the cost of a payload in credits.
func (t *requestTable) add(reqs []request, charge func(payload int) int, limit int, encrypted bool) []*pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*pending, len(reqs))
	for i, q := range reqs {
		p := &pending{
			command: q.command, id: t.nextID, treeID: q.treeID, charge: charge(q.payload),
			limit: limit, late: q.late, blocking: q.blocking, changes: q.changes, encrypted: encrypted, done: make(chan *response, 1),
		}
		t.nextID += uint64(p.charge)
		t.byID[p.id] = p
		list[i] = p
	}
	return list
}

// limit bounds the length of the message that begins with h, in bytes.
func (t *requestTable) limit(h *smbwire.Header) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byID[h.MessageID]
	if p == nil {
		return 0, errUnknown(h)
	}
	return p.limit, nil
}

// longest returns the largest limit of all requests, in bytes.
func (t *requestTable) longest() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byID {
		n = max(n, p.limit)
	}
	return n
}

// errUnknown is the error of a response without a request.
func errUnknown(h *smbwire.Header) error {
	return fmt.Errorf("%w: a response to %v with the id (%d) of no request", ErrProtocol, h.Command, h.MessageID)
}

// receive counts the credits of a response and delivers it to the waiting call. The caller
// keeps an interim response. It also keeps the response to an abandoned request; receive
// then returns that request.
func (t *requestTable) receive(r *response) (abandoned *pending, interim bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byID[r.MessageID]
	switch {
	case p == nil:
		return nil, false, errUnknown(&r.Header)
	case p.encrypted && !r.encrypted:
		return nil, false, fmt.Errorf("%w: the response to %v is not encrypted: %w", ErrProtocol, r.Command, ErrEncryption)
	case r.Command != p.command:
		return nil, false, fmt.Errorf("%w: a response to %v instead of %v", ErrProtocol, r.Command, p.command)
	case r.Status == ntstatus.Pending && r.Flags&smbwire.FlagAsync != 0:
		p.async, p.asyncID = true, r.AsyncID
		t.credits.grant(0, int(r.Credits))
		return nil, true, nil
	}
	delete(t.byID, p.id)
	t.credits.grant(p.charge, int(r.Credits))
	if p.abandoned {
		return p, false, nil
	}
	p.done <- r
	return nil, false, nil
}

// abandon makes the response to a request a late response. It reports false if the request
// has left the table: its response is in p.done, or the connection has ended.
func (t *requestTable) abandon(p *pending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byID[p.id]
	if ok {
		p.abandoned = true
	}
	return ok
}

// cancelHeader returns the header of a CANCEL for a request. It reports false if the
// request has its final response.
//
// Source: [MS-SMB2 2.2.30]
func (t *requestTable) cancelHeader(p *pending) (smbwire.Header, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byID[p.id]
	h := smbwire.Header{Command: smbwire.CommandCancel, MessageID: p.id, TreeID: p.treeID}
	if p.async {
		h.Flags, h.AsyncID, h.TreeID = smbwire.FlagAsync, p.asyncID, 0
	}
	return h, ok
}

// blocked reports whether a blocking request has an interim response.
func (t *requestTable) blocked(p *pending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.blocking && p.async
}

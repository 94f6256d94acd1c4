package smbserver

import (
	"context"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// cancelTable holds the requests of a connection that CANCEL can end, by message id. It is
// safe for concurrent use.
//
// Source: [MS-SMB2 3.3.5.16]
type cancelTable struct {
	mu   sync.Mutex
	byID map[uint64]context.CancelFunc
}

// add returns a context that ends with ctx, or when the request is cancelled. The caller
// calls done when the request can no longer be cancelled.
func (t *cancelTable) add(ctx context.Context, id uint64) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = make(map[uint64]context.CancelFunc)
	}
	t.byID[id] = cancel
	return ctx, func() {
		t.mu.Lock()
		delete(t.byID, id)
		t.mu.Unlock()
		cancel()
	}
}

// cancel cancels the request with a message id, if there is one.
func (t *cancelTable) cancel(id uint64) {
	t.mu.Lock()
	cancel := t.byID[id]
	t.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// cancel executes a CANCEL. It has no response. A CANCEL is ignored if no valid session has
// signed or encrypted it, or if it is not encrypted as the server requires: only a session
// has requests that can be cancelled.
//
// Source: [MS-SMB2 3.3.5.16]
func (m *message) cancel(h *smbwire.Header, msg []byte) {
	c := m.conn
	r := newRequest(m, h, msg)
	r.session = c.sessions.get(h.SessionID)
	if m.encrypted != nil {
		r.session = m.encrypted
	}
	if r.session == nil || !r.session.valid() || r.authentic() != ntstatus.Success {
		return
	}
	id := h.MessageID
	if h.Flags&smbwire.FlagAsync != 0 {
		id = h.AsyncID
	}
	c.cancels.cancel(id)
}

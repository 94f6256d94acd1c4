package smbserver

import (
	"context"
	"sync"

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

// receiveCancel executes a CANCEL. It has no response. A CANCEL without the signature of a
// valid session is ignored: every session requires signing, and only a session has requests
// that can be cancelled.
//
// Source: [MS-SMB2 3.3.5.16]
func (c *conn) receiveCancel(h *smbwire.Header, msg []byte) {
	s := c.sessions.get(h.SessionID)
	if s == nil || !s.valid() || !s.signed(h, msg) {
		return
	}
	id := h.MessageID
	if h.Flags&smbwire.FlagAsync != 0 {
		id = h.AsyncID
	}
	c.cancels.cancel(id)
}

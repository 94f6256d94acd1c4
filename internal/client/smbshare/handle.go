package smbshare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
	"lwio/internal/wire"
)

// handle is an open of a session. After the loss of a link it is reclaimed on the next one, before any
// other request. An open directory that is not persistent is opened again by its name.
//
// Source: [MS-SMB2 3.2.1.6]
type handle struct {
	s          *session
	req        OpenRequest // of the open
	created    Entry
	persistent bool
	locks      lockSequences

	stale  atomic.Pointer[staleness] // why the server does not keep the open; nil as long as it may
	closed atomic.Bool               // by the program
	wrote  atomic.Bool               // a WRITE or a change of the size was sent, or is about to be

	turn chan struct{} // holds a token while a goroutine reclaims or closes the open
	// left is the last file that was closed, with the result. The holder of the turn has them.
	left    *smbclient.File
	leftErr error

	mu  sync.Mutex // guards the following fields
	f   *smbclient.File
	on  *link      // the link of f
	key *resumeKey // the last known one; nil if there is none
}

// resumeKey is the key of an open, and whether the server offers LWIO for it.
type resumeKey struct {
	key  [24]byte
	lwio bool
}

// newHandle returns the handle of a new open.
func newHandle(s *session, req OpenRequest, f *smbclient.File, l *link) *handle {
	req.DeletePending, req.Data = false, nil // a reclaim changes nothing
	return &handle{s: s, req: req, created: f.Info(), persistent: f.Granted() > 0, f: f, on: l, turn: make(chan struct{}, 1)}
}

func (h *handle) Created() Entry { return h.created }

// Err returns base.ErrStale with its reason, or nil.
func (h *handle) Err() error {
	if s := h.stale.Load(); s != nil {
		return s.err
	}
	return nil
}

// file returns the file, and the link that it is open on.
func (h *handle) file() (*smbclient.File, *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.f, h.on
}

// fileOn returns the file on l, which it reclaims if that has not been done.
//
// Errors: base.ErrStale; ctx's; the loss of l, as the error of a request that was not sent.
func (h *handle) fileOn(ctx context.Context, l *link) (*smbclient.File, error) {
	if f, on := h.file(); on == l {
		return f, nil
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done := make(chan error, 1)
	reclaim := func() { // the caller may leave, and the open is not given up with the call
		defer func() { <-h.turn }()
		done <- h.reclaim(h.s.ctx, l)
	}
	if err := h.s.start(reclaim); err != nil {
		<-h.turn
		return nil, err
	}
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, on := h.file()
	if on != l {
		return nil, &awayError{fmt.Errorf("%w", l.s.Err())}
	}
	return f, nil
}

// reclaim reclaims the open on l, and settles the locks in doubt. Precondition: the caller has the
// turn.
//
// Source: [MS-SMB2 3.2.4.4]
func (h *handle) reclaim(ctx context.Context, l *link) error {
	_, on := h.file()
	switch err := h.Err(); {
	case on == l:
		return nil
	case err != nil:
		return err
	}
	f, err := h.openAgain(ctx, l)
	if err != nil {
		if l.s.Err() != nil || ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return &awayError{err}
		}
		return h.fail(err, l)
	}
	if err := h.settleLocks(ctx, f, l); err != nil {
		return &awayError{err}
	}
	h.mu.Lock()
	h.f, h.on = f, l
	h.mu.Unlock()
	return nil
}

// openAgain sends the CREATE that reclaims the open.
func (h *handle) openAgain(ctx context.Context, l *link) (f *smbclient.File, err error) {
	q := h.req
	switch {
	case h.persistent:
		old, _ := h.file()
		id := old.ID()
		q.Reclaim = &id
		err = available(ctx, func() error {
			f, err = l.tree.Create(ctx, q)
			return err
		})
		if err == nil {
			h.s.reclaimed.Add(1)
		}
		return f, err
	case !h.created.IsDir():
		return nil, errors.New("the server did not grant to keep it")
	}
	q.Persistent, q.Disposition = nil, DispositionOpen
	f, err = l.tree.Create(ctx, q)
	if err == nil && f.Info().ID != h.created.ID {
		_ = f.Close(ctx) // if that fails, the end of the session closes it
		return nil, errors.New("another directory has its name")
	}
	return f, err
}

// fail makes the open stale, because its reclaim on l was refused, and returns its error.
func (h *handle) fail(why error, l *link) error {
	_, on := h.file()
	if !h.persistent && errors.Is(why, ntstatus.ObjectNameNotFound) {
		why = ntstatus.FileDeleted // it was opened again by its name
	}
	reason := staleReason{why, on.s.ServerGUID() == l.s.ServerGUID()}
	s := &staleness{fmt.Errorf("%w: %w", base.ErrStale, reason), errors.Is(why, ntstatus.ObjectNameNotFound) && reason.sameServer}
	h.stale.CompareAndSwap(nil, s)
	h.s.forget(h)
	if h.closed.Load() {
		return h.Err()
	}
	h.s.cfg.Logger.Warn("lwio: open file lost", "server", h.s.where, "name", h.req.Name, "err", why)
	return h.Err()
}

// staleness is the reason for which the server does not keep an open.
type staleness struct {
	err error // base.ErrStale with the reason
	// closed: the server has closed the open, and has kept all that was written.
	closed bool
}

// staleReason is the refusal of a reclaim in words. It has no status: the status speaks of the CREATE.
type staleReason struct {
	error
	// sameServer: the server has the GUID that it had when it knew the open. A server with a state gets another
	// one when its host is started again, and a server without a state each time.
	sameServer bool
}

func (e staleReason) Error() string {
	switch {
	case errors.Is(e.error, ntstatus.ObjectNameNotFound) && e.sameServer:
		return "it was closed when its time without a connection was over"
	case errors.Is(e.error, ntstatus.ObjectNameNotFound):
		return "the server was started again and has not kept it; writes that were not synced may be lost"
	case errors.Is(e.error, ntstatus.FileDeleted):
		return "it was removed or renamed meanwhile"
	case errors.Is(e.error, ntstatus.FileForcedClosed):
		return "its content was changed meanwhile by another program on the server's host"
	case errors.Is(e.error, ntstatus.FileInvalid):
		return "another file has its name now"
	case errors.Is(e.error, ntstatus.AccessDenied):
		return "the server refuses it to this user"
	}
	return e.error.Error()
}

// restore reclaims the open after a loss, or closes it if the program has closed it.
func (h *handle) restore(l *link) {
	f, err := h.fileOn(h.s.ctx, l)
	if err != nil || !h.closed.Load() {
		return
	}
	if h.leave(h.s.ctx, f) == nil {
		h.s.forget(h)
	}
}

// leave closes f. The program and the maintainer may call it at the same time: both get the result of the one
// CLOSE, when the server has answered it.
func (h *handle) leave(ctx context.Context, f *smbclient.File) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	if h.left != f {
		h.left, h.leftErr = f, f.Close(ctx)
	}
	return h.leftErr
}

// try calls do with the file, as session.try.
func (h *handle) try(ctx context.Context, again bool, do func(f *smbclient.File) error) error {
	return h.s.try(ctx, again, func(l *link) error {
		f, err := h.fileOn(ctx, l)
		if err != nil {
			return err
		}
		return do(f)
	})
}

// ResumeKey returns the key from the server, or without a link and current the last known one.
func (h *handle) ResumeKey(ctx context.Context, current bool) (key [24]byte, lwio bool, err error) {
	if err := h.Err(); err != nil {
		return key, false, err
	}
	h.mu.Lock()
	known, on := h.key, h.on
	h.mu.Unlock()
	if !current && known != nil && on.s.Err() != nil {
		return known.key, known.lwio, nil
	}
	err = h.try(ctx, true, func(f *smbclient.File) error {
		b, err := f.ResumeKey(ctx)
		if err != nil {
			return err
		}
		k, err := wire.DecodeResumeKey(b)
		if err != nil {
			return base.ProtocolError("%v", err)
		}
		key, lwio = k.Key, k.Context != ""
		return nil
	})
	if err == nil {
		h.mu.Lock()
		h.key = &resumeKey{key, lwio}
		h.mu.Unlock()
	}
	return key, lwio, err
}

func (h *handle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	err = h.try(ctx, true, func(f *smbclient.File) error {
		m, err := f.ReadAt(ctx, p[n:], off+int64(n))
		n += m
		return err
	})
	return n, err
}

func (h *handle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	h.wrote.Store(true)
	err = h.try(ctx, false, func(f *smbclient.File) error {
		m, err := f.WriteAt(ctx, p[n:], off+int64(n))
		n += m
		return err
	})
	return n, err
}

// Settle returns nil after a loss: the server has ended the requests of the lost link before it
// answered on the next one. It needs no link if there was no such request.
//
// Source: [MS-SMB2 3.3.5.5.3]
func (h *handle) Settle(ctx context.Context) error {
	if !h.wrote.Load() {
		return h.Err()
	}
	return h.try(ctx, true, func(f *smbclient.File) error { return f.Settle(ctx) })
}

func (h *handle) Stat(ctx context.Context) (e Entry, err error) {
	err = h.try(ctx, true, func(f *smbclient.File) (err error) {
		e, err = f.Stat(ctx)
		return err
	})
	return e, err
}

func (h *handle) Entries(ctx context.Context) (list []Entry, err error) {
	err = h.try(ctx, true, func(f *smbclient.File) (err error) {
		list, err = listed(f.ReadDir(ctx, "*"), h.s.cfg.MaxListing)
		return err
	})
	return list, err
}

// SetSize asks for the size if the response was lost: the size that was to be set is the outcome. With
// another size the outcome is unknown, because another client may have changed the size after it.
func (h *handle) SetSize(ctx context.Context, size int64) error {
	h.wrote.Store(true)
	var unknown error // the loss of the response
	err := h.s.try(ctx, true, func(l *link) error {
		f, err := h.fileOn(ctx, l)
		if err != nil {
			return err
		}
		if unknown != nil {
			e, err := f.Stat(ctx)
			if err == nil && e.Size != size {
				err = unknown
			}
			return err
		}
		if err = f.SetSize(ctx, size); lost(l, err) && !Unsent(err) {
			unknown = err
		}
		return err
	})
	if err != nil && unknown != nil {
		return base.Uncertain(err)
	}
	return err
}

func (h *handle) Keep(ctx context.Context, name string) error {
	return h.try(ctx, false, func(f *smbclient.File) error { return f.Keep(ctx, name) })
}

// SetDelete does no harm if it is done twice.
func (h *handle) SetDelete(ctx context.Context, on bool) error {
	return h.try(ctx, true, func(f *smbclient.File) error { return f.SetDelete(ctx, on) })
}

// Close closes the open. If the call ends before the next link is there, the open is reclaimed and closed
// then.
//
// If the response was lost, and the server does not know the open any more, it was closed. But if the server has another
// GUID now, its host may have lost writes, and the error is base.ErrStale, as without the request.
func (h *handle) Close(ctx context.Context) error {
	if h.closed.Swap(true) {
		return nil
	}
	if err := h.Err(); err != nil {
		return err
	}
	sent := false
	err := h.s.try(ctx, true, func(l *link) error {
		f, err := h.fileOn(ctx, l)
		if err != nil {
			return err
		}
		err = h.leave(ctx, f)
		sent = sent || lost(l, err) && !Unsent(err)
		return err
	})
	if s := h.stale.Load(); sent && s != nil && errors.Is(err, base.ErrStale) && (s.closed || !h.mayWrite()) {
		err = nil
	}
	if err == nil || h.s.isUp() {
		h.s.forget(h)
	}
	return err
}

// mayWrite reports whether data can be written by the open.
func (h *handle) mayWrite() bool { return h.req.Access&(accessWriteData|accessAppendData) != 0 }

var _ Handle = (*handle)(nil)

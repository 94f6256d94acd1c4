package smbshare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

// firstKeyedDialect is the first with an application key of its own. [OP-46b]
const firstKeyedDialect = 0x0300

// maxLosses is the number of connections that a call may lose in a row. A call that loses more may be
// the cause.
const maxLosses = 8

// session is a Session over the SMB client. Its maintainer replaces a lost link.
//
// Source: [MS-SMB2 3.2]
type session struct {
	maker linkMaker
	cfg   *base.Config
	where string // host and port, for the log

	goroutines sync.WaitGroup // maintainer and reclaims
	ctx        context.Context
	stop       context.CancelFunc // ends them
	once       sync.Once          // of Close

	reconnects, reclaimed atomic.Uint64

	// mu guards the following fields.
	mu      sync.Mutex
	link    *link                // the newest
	up      bool                 // and its loss is not known
	over    error                // why no other link will come; nil as long as one may
	why     error                // of the last loss, with the error of the last attempt
	until   time.Time            // calls wait for the next link
	changed chan struct{}        // closed when up or over changes
	handles map[*handle]struct{} // open ones, and those that the server has to close yet
}

// NewSession signs in and connects to the share. It owns raw from now on, also if
// it fails. Further connections are made by Config.DialContext.
func NewSession(ctx context.Context, raw net.Conn, t *base.Target, cfg *base.Config) (Session, error) {
	maker, err := newLinkMaker(t, cfg)
	if err != nil {
		raw.Close()
		return nil, err
	}
	own := *cfg
	own.Password = ""
	s := &session{maker: maker, cfg: &own, where: t.Host, up: true, changed: make(chan struct{}), handles: make(map[*handle]struct{})}
	if s.link, err = s.maker.first(ctx, raw, cfg.ReconnectTimeout >= 0); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.goroutines.Go(s.keep)
	return s, nil
}

// awayError is the error of a request that was not sent because there is no link.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }

func (e *awayError) Unwrap() error { return e.cause }

// Unsent reports whether err is the error of a request that the server has not received, and will not.
func Unsent(err error) bool {
	var away *awayError
	return smbclient.Unsent(err) || errors.As(err, &away) || errors.Is(err, base.ErrStale)
}

// current returns the link. After a loss it waits for another one, as long as ctx and
// Config.ReconnectTimeout allow, or with patient as long as ctx alone allows.
//
// Errors: ctx's; the loss, as the error of a request that was not sent.
func (s *session) current(ctx context.Context, patient bool) (*link, error) {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		l, up, over, why, changed, left := s.link, s.up, s.over, s.why, s.changed, time.Until(s.until)
		s.mu.Unlock()
		switch {
		case over != nil:
			return nil, &awayError{over}
		case up && l.s.Err() == nil:
			return l, nil
		case up:
			s.lose(l)
			continue
		case left <= 0 && !patient:
			return nil, &awayError{why}
		}
		if late == nil && !patient {
			t := time.NewTimer(left)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-changed:
		case <-late:
			late = nil // unless a link has come and gone, until is over
		case <-ctx.Done():
			return nil, givenUp(ctx, why)
		}
	}
}

// givenUp is the error of a call whose ctx has ended after the loss of a link. It does not match the
// loss.
func givenUp(ctx context.Context, loss error) error {
	return fmt.Errorf("%w; there is no SMB session: %v", context.Cause(ctx), loss) //nolint:errorlint // the cause is the end of ctx
}

// try calls do with the link. After a loss it calls do again with the next link if the request was not
// sent, or may be sent again. A call whose ctx ends before that fails with the error of ctx.
func (s *session) try(ctx context.Context, again bool, do func(l *link) error) error {
	for losses := 0; ; losses++ {
		l, err := s.current(ctx, false)
		if err != nil {
			return err
		}
		err = do(l)
		switch unsent := Unsent(err); {
		case !lost(l, err) || losses == maxLosses || !again && !unsent:
			return err
		case ctx.Err() != nil && unsent:
			return &awayError{givenUp(ctx, err)}
		case ctx.Err() != nil:
			return givenUp(ctx, err)
		}
	}
}

// lost reports whether err is the loss of the link.
func lost(l *link, err error) bool {
	return err != nil && errors.Is(err, net.ErrClosed) && l.s.Err() != nil
}

// The pauses before a request is repeated that the server has refused because it keeps the file for
// its owner.
const (
	firstWait = 10 * time.Millisecond
	maxWait   = 500 * time.Millisecond
)

// available calls do until the server does not refuse it as FILE_NOT_AVAILABLE any more: it keeps a
// file of another client whose connection is lost, for a limited time.
//
// Source: [MS-SMB2 3.3.5.9]
func available(ctx context.Context, do func() error) error {
	for pause := firstWait; ; pause = min(2*pause, maxWait) {
		err := do()
		if !errors.Is(err, ntstatus.FileNotAvailable) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// persistence returns the name of a new open. The server is asked to keep the open for longer than
// calls wait, if it does not do so by default.
func (s *session) persistence() *smbclient.Persistence {
	const usual = 30 * time.Second
	p := new(smbclient.Persistence)
	rand.Read(p.GUID[:]) // never fails
	if s.cfg.ReconnectTimeout > usual {
		p.Timeout = min(2*s.cfg.ReconnectTimeout, time.Hour)
	}
	return p
}

func (s *session) Open(ctx context.Context, req OpenRequest) (Handle, error) {
	if req.Options&OptionDirectory == 0 && s.cfg.ReconnectTimeout >= 0 {
		req.Persistent = s.persistence()
	}
	var h *handle
	sent := false // once, and the response was lost
	open := func(l *link) error {
		q := req
		if !l.tree.Persistent() {
			q.Persistent = nil
		}
		q.Replay = sent && q.Persistent != nil
		f, err := l.tree.Create(ctx, q)
		if err == nil {
			h = newHandle(s, req, f, l)
		} else {
			sent = sent || lost(l, err) && !Unsent(err)
		}
		return err
	}
	err := available(ctx, func() error { return s.try(ctx, true, open) })
	switch {
	case err == nil:
		s.keepHandle(h)
		return h, nil
	case sent && errors.Is(err, ntstatus.ObjectNameCollision):
		return nil, base.Uncertain(err) // the file may be of the request whose response was lost
	}
	return nil, err
}

// keepHandle has the maintainer reclaim h after each loss.
func (s *session) keepHandle(h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles[h] = struct{}{}
}

// forget ends keepHandle.
func (s *session) forget(h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handles, h)
}

// isUp reports whether there is a link.
func (s *session) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up && s.link.s.Err() == nil
}

func (s *session) Stat(ctx context.Context, name string) (e Entry, err error) {
	stat := func(l *link) (err error) {
		e, err = l.tree.Stat(ctx, name)
		return err
	}
	err = available(ctx, func() error { return s.try(ctx, true, stat) })
	return e, err
}

func (s *session) ReadHead(ctx context.Context, name string, p []byte) (n int, e Entry, err error) {
	read := func(l *link) (err error) {
		n, e, err = l.tree.ReadHead(ctx, name, p[:min(len(p), l.tree.MaxSmall())])
		return err
	}
	err = available(ctx, func() error { return s.try(ctx, true, read) })
	return n, e, err
}

func (s *session) WriteWhole(ctx context.Context, file WholeFile, temporary func() string) (can bool, err error) {
	var unanswered []string // temporary names of files whose response was lost
	write := func(l *link) (err error) {
		if can, err = l.tree.WritesWhole(ctx); err != nil || !can {
			return err
		}
		file.Temporary = temporary()
		err = l.tree.WriteWhole(ctx, file)
		if lost(l, err) && !Unsent(err) {
			unanswered = append(unanswered, file.Temporary)
		}
		return err
	}
	err = changed(available(ctx, func() error { return s.try(ctx, true, write) }))
	if len(unanswered) > 0 && err != nil {
		err = base.Uncertain(err) // the lost response may have been one of success
	}
	for _, name := range unanswered {
		s.removeLeft(ctx, name)
	}
	return can || err != nil, err
}

// removeLeft removes the temporary file of a WriteWhole without a response, which a server that died in the middle has
// left. Usually there is none.
func (s *session) removeLeft(ctx context.Context, name string) {
	err := s.try(ctx, true, func(l *link) error { return l.tree.Remove(ctx, name) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Logger.Warn("lwio: a temporary file may be left", "file", name, "cause", err)
	}
}

func (s *session) ListSmall(ctx context.Context, name string) (list []Entry, small bool, err error) {
	read := func(l *link) error {
		entries, ok, err := l.tree.ListSmall(ctx, name)
		if small = ok; ok {
			list, err = listed(entries, s.cfg.MaxListing)
		}
		return err
	}
	err = available(ctx, func() error { return s.try(ctx, true, read) })
	return list, small, err
}

func (s *session) Space(ctx context.Context) (sp Space, err error) {
	ask := func(l *link) (err error) {
		sp, err = l.tree.Space(ctx)
		return err
	}
	err = available(ctx, func() error { return s.try(ctx, true, ask) })
	return sp, err
}

// SetBasic does no harm if it is done twice.
func (s *session) SetBasic(ctx context.Context, name string, b Basic) error {
	set := func(l *link) error { return l.tree.SetBasic(ctx, name, b) }
	return available(ctx, func() error { return s.try(ctx, true, set) })
}

func (s *session) MaxSmall() int { return s.newest().tree.MaxSmall() }

// change does a change of names. Its outcome is unknown if the response was lost.
func (s *session) change(ctx context.Context, do func(l *link) error) error {
	return changed(available(ctx, func() error { return s.try(ctx, false, do) }))
}

// changed marks an error of a change of names whose outcome is unknown.
func changed(err error) error {
	if errors.Is(err, smbclient.ErrUnknownOutcome) {
		return base.Uncertain(err)
	}
	return err
}

func (s *session) Mkdir(ctx context.Context, name string) error {
	return s.change(ctx, func(l *link) error { return l.tree.Mkdir(ctx, name) })
}

func (s *session) Remove(ctx context.Context, name string) error {
	return s.change(ctx, func(l *link) error { return l.tree.Remove(ctx, name) })
}

func (s *session) Rename(ctx context.Context, from, to string) error {
	return s.change(ctx, func(l *link) error { return l.tree.Rename(ctx, from, to, true) })
}

// newest returns the newest link, which may be lost.
func (s *session) newest() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

// Encryption is the cipher of the messages of the session, "" if they are signed only.
//
// Source: [OP-114]
func (s *session) Encryption() string { return s.newest().s.Encryption() }

// ApplicationKey returns the application key of the newest SMB session.
func (s *session) ApplicationKey() ([]byte, bool) {
	l := s.newest()
	key := l.s.ApplicationKey()
	return key[:], l.s.Dialect() >= firstKeyedDialect && key != [16]byte{}
}

func (s *session) Err() error {
	s.mu.Lock()
	l, up, over := s.link, s.up, s.over
	s.mu.Unlock()
	if over == nil && up && l.s.Err() != nil {
		return s.lose(l)
	}
	return over
}

func (s *session) Await(ctx context.Context) error {
	_, err := s.current(ctx, true)
	return err
}

func (s *session) State() base.SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := base.SessionState{Reconnects: s.reconnects.Load(), Reclaimed: s.reclaimed.Load(), Server: s.maker.server()}
	if !s.up {
		st.Away = s.why
	}
	return st
}

// Close ends the session at the server, as long as ctx lets it, and waits for the goroutines.
func (s *session) Close(ctx context.Context) error {
	var err error
	s.once.Do(func() {
		final := s.isOver()
		s.end(base.ErrClientClosed)
		s.stop()
		s.goroutines.Wait()
		l := s.newest()
		err = l.s.CloseContext(ctx)
		if !final && s.leavesOpens(l) {
			s.logOffAnew(ctx)
		}
	})
	return err
}

// isOver reports whether no other link will come.
func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over != nil
}

// leavesOpens reports whether the server keeps opens of the session, whose last link l has ended.
func (s *session) leavesOpens(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.tree.Persistent() || s.cfg.ReconnectTimeout < 0 || l.s.LoggedOff() {
		return false
	}
	for h := range s.handles {
		if h.persistent {
			return true
		}
	}
	return false
}

// logOffAnew makes another link and logs off, until ctx ends: the server then closes the opens, which it keeps for a
// time otherwise. The maintainer has ended.
//
// Source: [MS-SMB2 3.3.5.6]
func (s *session) logOffAnew(ctx context.Context) {
	var err error
	for pause := new(base.Backoff); pause.Sleep(ctx, maxCallPause); {
		var l *link
		if l, err = s.attempt(ctx); refusesUser(err) {
			break
		}
		if err != nil {
			continue
		}
		if _ = l.s.CloseContext(ctx); l.s.LoggedOff() { // which returns no error
			return
		}
	}
	s.cfg.Logger.Warn("lwio: open files are left at the server, which keeps them for a time", "server", s.where, "err", err)
}

// end ends the session for good, if it has not ended.
func (s *session) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return
	}
	s.over, s.why = why, why
	s.signalLocked()
}

// start runs f in a goroutine of the maintainer, unless the session has ended for good.
func (s *session) start(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return &awayError{s.over}
	}
	s.goroutines.Go(f)
	return nil
}

// signalLocked wakes the calls that wait. Precondition: mu is held.
func (s *session) signalLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

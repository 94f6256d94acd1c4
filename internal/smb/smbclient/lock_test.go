package smbclient

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// lockServer is a fake that sends interim responses to locks, and grants or refuses them when
// the test decides so, or when the client cancels them.
type lockServer struct {
	t        *testing.T
	onCancel ntstatus.Status // Pending: nothing
	f        *fake

	mu      sync.Mutex
	got     []smbwire.LockElement
	waiting []smbwire.Header
}

func (s *lockServer) mount(t *testing.T, cfg func(*Config)) *Tree {
	s.t = t
	_, tree := fakeMount(t, func(f *fake) {
		s.f = f
		f.on = s.on
	}, cfg)
	return tree
}

func (s *lockServer) on(f *fake, h smbwire.Header, body []byte) bool {
	switch h.Command {
	case smbwire.CommandLock:
		q, err := smbwire.DecodeLockRequest(bytes.Clone(body))
		if err != nil || len(q.Locks) != 1 || q.FileID != fakeFile || q.Sequence != 0 {
			s.t.Errorf("%+v, %v", q, err)
		}
		l := q.Locks[0]
		s.mu.Lock()
		s.got = append(s.got, l)
		s.mu.Unlock()
		switch {
		case l.Flags&smbwire.LockUnlock != 0 && l.Offset == 666:
			f.reply(h, ntstatus.RangeNotLocked, &smbwire.ErrorResponse{})
		case l.Flags&smbwire.LockUnlock != 0:
			f.reply(h, ntstatus.Success, smbwire.Empty{})
		case l.Flags&smbwire.LockFailImmediately != 0:
			f.reply(h, ntstatus.LockNotGranted, &smbwire.ErrorResponse{})
		default:
			h.Flags |= smbwire.FlagAsync
			h.AsyncID = h.MessageID
			f.reply(h, ntstatus.Pending, &smbwire.ErrorResponse{})
			h.Credits = 0 // they have been granted
			s.mu.Lock()
			s.waiting = append(s.waiting, h)
			s.mu.Unlock()
		}
		return true
	case smbwire.CommandCancel:
		if s.onCancel != ntstatus.Pending {
			s.answer(s.onCancel)
		}
		return true
	}
	return false
}

// answer sends the final response to the first waiting lock.
func (s *lockServer) answer(st ntstatus.Status) {
	s.mu.Lock()
	h := s.waiting[0]
	s.waiting = s.waiting[1:]
	s.mu.Unlock()
	if st == ntstatus.Success {
		s.f.reply(h, st, smbwire.Empty{})
	} else {
		s.f.reply(h, st, &smbwire.ErrorResponse{})
	}
}

// The requests of Lock and Unlock, and the meaning of their responses.
//
// Source: [MS-SMB2 3.2.4.19], [MS-SMB2 3.2.4.20]
func TestLockAndUnlockMapToStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s lockServer
		f := open(t, s.mount(t, nil), readWrite("f"))
		ctx := t.Context()
		if err := f.Lock(ctx, 1, 2, false, false); !errors.Is(err, ntstatus.LockNotGranted) || err.Error() != "STATUS_LOCK_NOT_GRANTED" {
			t.Error(err)
		}
		if err := f.Unlock(ctx, 1<<63, 1<<63); err != nil {
			t.Error(err)
		}
		if err := f.Unlock(ctx, 666, 1); !errors.Is(err, ntstatus.RangeNotLocked) {
			t.Error(err)
		}
		// After an interim response the server may take longer than the timeout.
		time.AfterFunc(time.Hour, func() { s.answer(ntstatus.Success) })
		if err := f.Lock(ctx, 5, 6, true, true); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Hour, func() { s.answer(ntstatus.RangeNotLocked) })
		if err := f.Lock(ctx, 7, 8, false, true); !errors.Is(err, ntstatus.RangeNotLocked) {
			t.Error(err)
		}
		want := []smbwire.LockElement{
			{Offset: 1, Length: 2, Flags: 0x11},
			{Offset: 1 << 63, Length: 1 << 63, Flags: 4},
			{Offset: 666, Length: 1, Flags: 4},
			{Offset: 5, Length: 6, Flags: 2},
			{Offset: 7, Length: 8, Flags: 1},
		}
		if d := cmp.Diff(want, s.got); d != "" {
			t.Error(d)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := f.Lock(ctx, 1, 2, false, false); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
}

// The end of its context cancels a lock. If the server has granted it by then, Lock
// succeeds. If the server grants it later, the lock is unlocked.
//
// Source: [MS-SMB2 3.2.4.24]
func TestCanceledLockIsUnlockedIfGrantedLater(t *testing.T) {
	lock, unlock := smbwire.LockElement{Offset: 1, Length: 2, Flags: 2}, smbwire.LockElement{Offset: 1, Length: 2, Flags: 4}
	for name, c := range map[string]struct {
		onCancel, later ntstatus.Status
		took            time.Duration
		want            error
		sent            []smbwire.LockElement
	}{
		"cancelled":             {onCancel: ntstatus.Cancelled, took: time.Hour, want: context.DeadlineExceeded, sent: []smbwire.LockElement{lock}},
		"granted":               {onCancel: ntstatus.Success, took: time.Hour, sent: []smbwire.LockElement{lock}},
		"granted later":         {onCancel: ntstatus.Pending, later: ntstatus.Success, took: time.Hour + cancelGrace, want: context.DeadlineExceeded, sent: []smbwire.LockElement{lock, unlock}},
		"cancelled later":       {onCancel: ntstatus.Pending, later: ntstatus.Cancelled, took: time.Hour + cancelGrace, want: context.DeadlineExceeded, sent: []smbwire.LockElement{lock}},
		"refused when too late": {onCancel: ntstatus.RangeNotLocked, took: time.Hour, want: ntstatus.RangeNotLocked, sent: []smbwire.LockElement{lock}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lockServer{onCancel: c.onCancel}
				f := open(t, s.mount(t, nil), readWrite("f"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				err := f.Lock(ctx, 1, 2, true, true)
				if c.want == nil && err != nil || !errors.Is(err, c.want) || time.Since(start) != c.took {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				if c.onCancel == ntstatus.Pending {
					s.answer(c.later)
				}
				synctest.Wait()
				if d := cmp.Diff(c.sent, s.got); d != "" || s.f.count(smbwire.CommandCancel) != 1 {
					t.Errorf("%d cancels, %s", s.f.count(smbwire.CommandCancel), d)
				}
			})
		})
	}
}

// The response to an unlock that no call waits for goes to Late.
func TestUnlockSoonTellsItsOutcome(t *testing.T) {
	for off, want := range map[uint64]bool{1: true, 666: false} {
		synctest.Test(t, func(t *testing.T) {
			var s lockServer
			f := open(t, s.mount(t, nil), readWrite("f"))
			outcome := make(chan bool, 1)
			f.UnlockSoon(t.Context(), LockCall{Off: off, Len: 2, Late: func(_ context.Context, done bool) { outcome <- done }})
			if done := <-outcome; done != want {
				t.Errorf("offset %d: done is %v", off, done)
			}
		})
	}
}

// Without an interim response the timeout ends a lock.
func TestLockTimesOutWithoutInterimResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tree := fakeMount(t, onCommand(smbwire.CommandLock, func(*fake, smbwire.Header, []byte) {}), func(c *Config) { c.Timeout = time.Minute })
		f := open(t, tree, readWrite("f"))
		start := time.Now()
		if err := f.Lock(t.Context(), 1, 2, true, true); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

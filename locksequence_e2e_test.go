package lwio_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

// Locks that are never sent use up no lock sequence, so none of the later ones is taken for a repetition of the last lock that the
// client got.
//
// Source: [MS-SMB2 3.2.4.19]
func TestLocksThatFailUseUpNoSequence(t *testing.T) {
	ctx := t.Context()
	s, link := lwiotest.NewServer(t, nil), new(faultconn.Link)
	everything := lwio.Range{Len: 1 << 40}
	open := func(cfg *lwio.Config) *lwio.File {
		c, err := lwio.Dial(ctx, s.URL(), cfg)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		f, err := c.OpenFile(ctx, "f", os.O_RDWR|os.O_CREATE, 0)
		must(t, err)
		must(t, f.TryLock(ctx, everything, lwio.LockExclusive))
		must(t, f.Unlock(ctx, everything))
		return f
	}
	f := open(&lwio.Config{SMBOnly: true, DialContext: link.DialContext, ReconnectTimeout: time.Minute})
	other := open(nil)
	must(t, other.TryLock(ctx, everything, lwio.LockExclusive))
	link.Down()
	for unsent := 0; unsent < 40; {
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		err := f.TryLock(soon, everything, lwio.LockExclusive)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			unsent++
		case !errors.Is(err, lwio.ErrLocked): // the loss has not been noticed
			t.Fatal(err)
		}
	}
	link.Up()
	for range 40 {
		if err := f.TryLock(ctx, everything, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
			t.Fatal(err)
		}
	}
	must(t, other.Unlock(ctx, everything))
	must(t, f.TryLock(ctx, everything, lwio.LockExclusive))
}

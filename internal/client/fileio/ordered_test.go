package fileio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"lwio/internal/client/smbshare"
)

// A call that is ordered after all earlier writes also waits for those, and for changes of the size,
// that were given up over SMB and are not answered; only as long as its context allows.
//
// Source: [OP-115], [MS-SMB2 3.2.4.24]
func TestOrderedCallWaitsForAbandonedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := newFakeShare()
		share.put("f", []byte("long"))
		c, sess := overSMB(t, share)
		sess.unsettled = make(chan struct{})
		f := openOn(t, c, "f")
		verbs := map[string]func(ctx context.Context) error{
			"sync":     f.Sync,
			"truncate": func(ctx context.Context) error { return f.Truncate(ctx, 1) },
			"unlock":   func(ctx context.Context) error { return f.Unlock(ctx, smbshare.Range{Len: 1}) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, len(verbs))
		for _, call := range verbs {
			go func() { cancelled <- call(ctx) }()
		}
		synctest.Wait()
		cancel()
		for range verbs {
			if err := <-cancelled; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if sess.counted(&sess.flushes)+sess.counted(&sess.unlocks) != 0 || string(share.files["f"].content()) != "long" {
			t.Error("something was done that should have waited")
		}
		close(sess.unsettled)
		for what, call := range verbs {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if sess.counted(&sess.flushes) != 1 || sess.counted(&sess.unlocks) != 1 || string(share.files["f"].content()) != "l" {
			t.Error("something was not done")
		}
	})
}

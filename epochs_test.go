package lwio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Source: [OP-115]
func TestEpochsWaitForEarlierWritesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e epochs
		ctx := t.Context()
		if err := e.wait(ctx); err != nil {
			t.Fatal(err)
		}
		first := e.begin()
		sibling := e.begin()
		waited := make(chan int, 2)
		wait := func(id int) {
			if err := e.wait(ctx); err != nil {
				t.Error(err)
			}
			waited <- id
		}
		go wait(1)
		synctest.Wait()
		second := e.begin()
		go wait(2)
		synctest.Wait()
		third := e.begin()

		second.end()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for the first write", <-waited)
		}
		first.end()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for all of the first writes", <-waited)
		}
		sibling.end()
		synctest.Wait()
		if len(waited) != 2 {
			t.Fatalf("%d of 2 waiters returned", len(waited))
		}
		third.end()
		if err := e.wait(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEpochsWaitEndsWithContext(t *testing.T) {
	var e epochs
	w := e.begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := e.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	w.end()
	if err := e.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What comes after all earlier writes also waits for those, and for changes of the size,
// that were given up over SMB and are not answered; only as long as its context allows.
//
// Source: [OP-115], [MS-SMB2 3.2.4.24]
func TestOrderedWaitsForWhatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := newFakeShare()
		share.put("f", []byte("long"))
		c, sess := overSMB(t, share)
		sess.unsettled = make(chan struct{})
		f := openOn(t, c, "f")
		verbs := map[string]func(ctx context.Context) error{
			"sync":     f.Sync,
			"truncate": func(ctx context.Context) error { return f.Truncate(ctx, 1) },
			"unlock":   func(ctx context.Context) error { return f.Unlock(ctx, Range{Len: 1}) },
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

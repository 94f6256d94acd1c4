package fileio

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
)

// TestCommitUnanswered ends the commit of a file in place of another one in each way that
// the renaming can end. For every answer and every outcome, one of both files is there
// under the name, the old one for certain if the error is not ErrUncertain; and the outcome
// of the renaming is reported wherever it can be known.
func TestCommitUnanswered(t *testing.T) {
	give := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		rename    func(ctx context.Context, do func()) error
		unsettled bool
		err       error // of Commit
		uncertain bool
		content   string
		temporary bool // a file of the temporary name is left
	}{
		"refused":              {rename: func(context.Context, func()) error { return ntstatus.AccessDenied }, err: fs.ErrPermission, content: "old"},
		"given up, done":       {rename: func(ctx context.Context, do func()) error { do(); return give(ctx) }, content: "new"},
		"given up, not done":   {rename: func(ctx context.Context, _ func()) error { return give(ctx) }, err: context.Canceled, content: "old"},
		"silent, done":         {rename: func(ctx context.Context, do func()) error { do(); return give(ctx) }, unsettled: true, err: context.Canceled, uncertain: true, content: "new"},
		"silent, not done yet": {rename: func(ctx context.Context, _ func()) error { return give(ctx) }, unsettled: true, err: context.Canceled, uncertain: true, content: "old", temporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			share := newFakeShare()
			share.put("f", []byte("old"))
			synctest.Test(t, func(t *testing.T) {
				c, sess := overSMB(t, share)
				ctx, cancel := context.WithCancel(t.Context())
				sess.onRename = func(ctx context.Context, do func()) error {
					cancel()
					if test.unsettled {
						sess.unsettled = make(chan struct{})
					}
					return test.rename(ctx, do)
				}
				p, err := c.CreatePending(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.WriteAt([]byte("new"), 0); err != nil {
					t.Fatal(err)
				}
				if err := p.Commit(ctx); !errors.Is(err, test.err) || base.IsUncertain(err) != test.uncertain {
					t.Errorf("commit: %v", err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if f := share.files["f"]; f == nil || string(f.content()) != test.content {
					t.Errorf("not the %s file", test.content)
				}
				temporary := slices.ContainsFunc(share.names(), func(name string) bool { return strings.HasSuffix(name, ".part") })
				if temporary != test.temporary {
					t.Errorf("left: %q", share.names())
				}
			})
		})
	}
}

// A second Commit after one with an unknown outcome asks the server for the outcome. Until the server
// has reported it, it stays unknown, and a file that has its name is not deleted.
func TestSecondCommitSettlesUnknownOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		done    bool  // the first time, after all
		keeping error // the last time
		refused error // likewise
		err     error // of the last Commit
		content string
	}{
		"done":              {done: true, content: "new"},
		"done, and no more": {done: true, keeping: os.ErrDeadlineExceeded, content: "new"},
		"not done, now":     {content: "new"},
		"never done":        {refused: ntstatus.AccessDenied, err: fs.ErrPermission, content: "old"},
		"not even asked":    {keeping: os.ErrDeadlineExceeded, err: os.ErrDeadlineExceeded, content: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			share := newFakeShare()
			share.put("f", []byte("old"))
			synctest.Test(t, func(t *testing.T) {
				c, sess := overSMB(t, share)
				p, err := c.CreatePending(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.WriteAt([]byte("new"), 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				sess.onRename = func(ctx context.Context, do func()) error {
					cancel()
					sess.unsettled = make(chan struct{})
					if test.done {
						do()
					}
					return ctx.Err()
				}
				for range 2 {
					if err := p.Commit(ctx); !base.IsUncertain(err) || !errors.Is(err, context.Canceled) {
						t.Errorf("commit: %v", err)
					}
				}
				close(sess.unsettled)
				sess.keeping = test.keeping
				sess.onRename = func(_ context.Context, do func()) error {
					if test.refused == nil {
						do()
					}
					return test.refused
				}
				if err := p.Commit(t.Context()); !errors.Is(err, test.err) || base.IsUncertain(err) {
					t.Errorf("the last commit: %v", err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if names := share.names(); len(names) != 2 || string(share.files["f"].content()) != test.content {
					t.Errorf("not the %s file alone in the root: %q", test.content, names)
				}
			})
		})
	}
}

// TestCommitUnclosed is a commit after which the file cannot be closed: it has its name,
// and no call reports that it has not.
func TestCommitUnclosed(t *testing.T) {
	share := newFakeShare()
	c, sess := overSMB(t, share)
	p, err := c.CreatePending(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	sess.closing = os.ErrDeadlineExceeded
	if err := p.Commit(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || !base.IsUncertain(err) {
		t.Errorf("commit: %v", err)
	}
	if !slices.Contains(share.names(), "f") {
		t.Errorf("there is %q", share.names())
	}
}

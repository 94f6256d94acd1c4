package lwio_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// A pending file is there in whole or not at all.
func TestPendingFileAppearsWholeOrNotAtAll(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		if err := c.Mkdir(ctx, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, c, "d/final", []byte("old"))
		for _, name := range []string{"d/final", "d/" + strings.Repeat("x", 255)} {
			for _, commit := range []bool{false, true} {
				f, err := c.CreatePending(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("new"), 0); err != nil {
					t.Fatal(err)
				}
				if commit {
					if err := f.Commit(ctx); err != nil {
						t.Fatal(err)
					}
					if err := f.Commit(ctx); !errors.Is(err, fs.ErrClosed) {
						t.Errorf("second commit: %v", err)
					}
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(filepath.Join(s.Dir, name))
				switch {
				case commit && (err != nil || string(got) != "new"):
					t.Errorf("committed: %q, %v", got, err)
				case !commit && err == nil && string(got) != "old", !commit && err != nil && name == "d/final":
					t.Errorf("not committed: %q, %v", got, err)
				}
			}
		}
		// The session ends in the middle.
		f, err := c.CreatePending(ctx, "d/lost")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if f.Close() == nil {
			t.Error("close without a session said nothing")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadDir(filepath.Join(s.Dir, "d"))
		if err != nil || len(list) != 2 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	})
}

func TestPendingFileInTheWay(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c := s.Client(nil)
	if err := c.Mkdir(t.Context(), "d", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreatePending(t.Context(), "d"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("%v", err)
	}
	if _, err := c.CreatePending(t.Context(), "missing/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	f, err := c.CreatePending(t.Context(), "late")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Mkdir(t.Context(), "late", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "lwio: commit late: ") {
		t.Errorf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(s.Dir); err != nil || len(list) != 2 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// slowRename is a share that renames when the test proceeds.
type slowRename struct {
	vfs.Backend
	began, proceed chan struct{}
}

func (b slowRename) Rename(from, to string, node vfs.NodeID, replace bool) error {
	close(b.began)
	<-b.proceed
	return b.Backend.Rename(from, to, node, replace)
}

// slowShare serves a directory with an old file f.
func slowShare(t *testing.T) (string, slowRename, *lwiotest.Server) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := slowRename{d, make(chan struct{}), make(chan struct{})}
	return dir, b, lwiotest.NewServer(t, &lwiotest.Config{Backend: b})
}

// TestCommitGivenUp gives up a commit that the server does all the same, before the client
// is done with it or after: the new file is there, and stays, and no call reports that the old
// one is.
func TestCommitGivenUp(t *testing.T) {
	for _, late := range []bool{false, true} {
		dir, b, s := slowShare(t)
		c := s.Client(nil)
		f, err := c.CreatePending(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-b.began
			cancel()
			if !late {
				close(b.proceed)
			}
		}()
		err = f.Commit(ctx)
		if err != nil && !errors.Is(err, lwio.ErrUncertain) || err == nil && late {
			t.Errorf("commit, late %v: %v", late, err)
		}
		if late {
			close(b.proceed)
		}
		if err := errors.Join(f.Close(), c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if list, e := os.ReadDir(dir); err != nil || string(got) != "new" || len(list) != 1 {
			t.Errorf("late %v: %q, %v; %v, %v", late, got, err, list, e)
		}
	}
}

// TestRenameGivenUp gives up a renaming that the server does all the same: no call returns that
// it has failed.
func TestRenameGivenUp(t *testing.T) {
	dir, b, s := slowShare(t)
	c := s.Client(nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.began
		cancel()
	}()
	err := c.Rename(ctx, "f", "g")
	close(b.proceed)
	if !errors.Is(err, lwio.ErrUncertain) || !errors.Is(err, context.Canceled) || errors.Is(c.Rename(ctx, "f", "h"), lwio.ErrUncertain) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g")); err != nil {
		t.Error(err)
	}
}

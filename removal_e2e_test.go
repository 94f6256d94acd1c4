package lwio_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lwio"
	"lwio/lwiotest"
)

// A file that is read-only is removed, as POSIX has it. A refused removal leaves the attribute.
func TestReadOnlyFileIsRemoved(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		for _, name := range []string{"gone", "d/stays"} {
			must(t, os.MkdirAll(filepath.Join(s.Dir, "d"), 0o700))
			must(t, os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600))
			must(t, c.Chmod(ctx, name, 0o444))
		}
		must(t, c.Remove(ctx, "gone"))
		if _, err := c.Stat(ctx, "gone"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := c.Remove(ctx, "d"); !errors.Is(err, syscall.ENOTEMPTY) {
			t.Errorf("a directory with a file: %v", err)
		}
		if fi, err := c.Stat(ctx, "d/stays"); err != nil || fi.Mode()&0o222 != 0 {
			t.Errorf("%v, %v", fi, err)
		}
	})
}

func TestDirectoryIsSynced(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		must(t, c.Mkdir(ctx, "d", 0o700))
		must(t, c.WriteFile(ctx, "f", nil))
		must(t, c.SyncDir(ctx, "d"))
		must(t, c.SyncDir(ctx, "."))
		if err := c.SyncDir(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := c.SyncDir(ctx, "f"); !errors.Is(err, syscall.ENOTDIR) {
			t.Error(err)
		}
	})
}

package lwio_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
)

// Chtimes sets the times that are not zero, in units of 100 ns, and Chmod the permission to write.
func TestTimesAndModeAreSet(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := context.Background()
		if err := errors.Join(c.WriteFile(ctx, "f", []byte("content")), c.Mkdir(ctx, "d", 0)); err != nil {
			t.Fatal(err)
		}
		accessed := time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.UTC)
		modified := time.Date(1975, 6, 7, 8, 9, 10, 999999999, time.UTC)
		const unit = 100 * time.Nanosecond
		for _, name := range []string{"f", "d"} {
			if err := errors.Join(c.Chtimes(ctx, name, accessed, time.Time{}), c.Chtimes(ctx, name, time.Time{}, modified)); err != nil {
				t.Fatal(err)
			}
			fi, err := c.Stat(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if i := fi.Sys().(*lwio.SMBInfo); !fi.ModTime().Equal(modified.Truncate(unit)) || !i.Accessed.Equal(accessed.Truncate(unit)) {
				t.Errorf("%s: modified %v, accessed %v", name, fi.ModTime(), i.Accessed)
			}
		}
		for _, writable := range []bool{false, true} {
			mode := fs.FileMode(0o444)
			if writable {
				mode = 0o644
			}
			if err := errors.Join(c.Chmod(ctx, "f", mode), c.Chmod(ctx, "d", mode)); err != nil {
				t.Fatal(err)
			}
			fi, err := os.Stat(filepath.Join(s.Dir, "f"))
			if err != nil || (fi.Mode()&0o200 != 0) != writable {
				t.Errorf("mode %v after Chmod(%v): %v", fi.Mode(), mode, err)
			}
			if remote, err := c.Stat(ctx, "f"); err != nil || (remote.Mode()&0o200 != 0) != writable || !remote.ModTime().Equal(modified.Truncate(unit)) {
				t.Errorf("Stat: %v, %v", remote, err)
			}
			if fi, err := os.Stat(filepath.Join(s.Dir, "d")); err != nil || fi.Mode()&0o200 == 0 {
				t.Errorf("Chmod of a directory: %v, %v", fi, err)
			}
		}
		for _, err := range []error{c.Chtimes(ctx, "none", accessed, modified), c.Chmod(ctx, "none", 0o644)} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of a missing file: %v", err)
			}
		}
	})
}

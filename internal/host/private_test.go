//go:build unix

package host

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
)

// A directory that others may read or change is refused.
func TestCheckPrivate(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[fs.FileMode]error{0o700: nil, 0o500: nil, 0o750: fs.ErrPermission, 0o701: fs.ErrPermission} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckPrivate(info); !errors.Is(err, want) {
			t.Errorf("%#o: %v", mode, err)
		}
	}
	info, err := fs.Stat(fstest.MapFS{"d": {Mode: fs.ModeDir}}, "d")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(info); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a directory of no system: %v", err)
	}
}

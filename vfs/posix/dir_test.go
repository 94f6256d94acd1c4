package posix_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestOpenDirNamesTheMissingDirectory(t *testing.T) {
	_, err := posix.OpenDir("/no/such/directory")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/directory") {
		t.Error(err)
	}
}

// wantStatus fails the test unless err is, or wraps, that status. Success is nil.
func wantStatus(t *testing.T, operation string, err error, want ntstatus.Status) {
	t.Helper()
	if got := ntstatus.Of(err); got != want {
		t.Errorf("%s: %v (%v), want %v", operation, got, err, want)
	}
}

// A file is replaced only on request, and an operation on a name that stands for another file
// by now fails.
func TestDirChecksTheFileBehindAName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.Stat("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Stat("b")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "rename", d.Rename("a", "b", a.Node(), false), ntstatus.ObjectNameCollision)
	wantStatus(t, "rename of another", d.Rename("a", "c", b.Node(), true), ntstatus.ObjectNameNotFound)
	wantStatus(t, "remove of another", d.Remove("a", b.Node(), false), ntstatus.ObjectNameNotFound)
	wantStatus(t, "remove of nothing", d.Remove("c", b.Node(), false), ntstatus.ObjectNameNotFound)
	_, err = d.Create("a", vfs.HandleMode{Write: true}, false)
	wantStatus(t, "create", err, ntstatus.ObjectNameCollision)
	wantStatus(t, "mkdir", d.Mkdir("dir"), ntstatus.ObjectNameCollision)
	_, err = d.Open("dir", vfs.HandleMode{Read: true})
	wantStatus(t, "directory as file", err, ntstatus.FileIsADirectory)
	_, err = d.Open("a", vfs.HandleMode{Dir: true})
	wantStatus(t, "file as directory", err, ntstatus.NotADirectory)
	wantStatus(t, "rename", d.Rename("a", "b", a.Node(), true), ntstatus.Success)
	wantStatus(t, "remove", d.Remove("b", a.Node(), false), ntstatus.Success)
	for _, name := range []string{"a", "b"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not removed: %v", name, err)
		}
	}
}

package secret

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// put makes a file with a mode.
func put(t *testing.T, content string, mode fs.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReadLinesSplitsContent(t *testing.T) {
	for content, want := range map[string][]string{
		"":                {""},
		"a":               {"a"},
		"a\n":             {"a", ""},
		"a\r\nb\n\nc\r\n": {"a", "b", "", "c", ""},
		" a \rb\t":        {" a \rb\t"},
	} {
		got, err := ReadLines(put(t, content, 0o600))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", content, got, err, want)
		}
	}
}

// A file above the limit is refused, and the error has none of its content.
func TestReadLinesRefusesLongFiles(t *testing.T) {
	for size, ok := range map[int]bool{MaxSize: true, MaxSize + 1: false} {
		name := put(t, strings.Repeat("s", size), 0o600)
		_, err := ReadLines(name)
		if (err == nil) != ok || err != nil && (!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "sss")) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := ReadLines(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// A file that group or others may read, change or execute is refused.
func TestReadLinesRefusesFilesOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the system has no such modes
	}
	for mode, ok := range map[fs.FileMode]bool{
		0o600: true, 0o400: true, 0o700: true,
		0o640: false, 0o620: false, 0o610: false, 0o604: false, 0o602: false, 0o601: false,
	} {
		name := put(t, "topsecret", mode)
		_, err := ReadLines(name)
		if ok != (err == nil) || !ok && (!errors.Is(err, ErrMode) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "topsecret")) {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}

// WriteFile makes a file with mode 0600, replaces the content of another one, and leaves no other file.
func TestWriteFileReplacesWholeFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "secret")
	for _, content := range []string{"a longer content\n", "short\n", ""} {
		if err := WriteFile(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
		if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if err := WriteFile(filepath.Join(dir, "missing", "secret"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if err := WriteFile(dir, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if left, err := filepath.Glob(filepath.Join(d, ".lwio-*.tmp")); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

// A change by a symbolic link replaces its target.
func TestWriteFileFollowsLinks(t *testing.T) {
	target := put(t, "old", 0o600)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	info, e := os.Lstat(link)
	if string(got) != "new" || errors.Join(err, e) != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("target %q, link %v, %v, %v", got, info.Mode(), err, e)
	}
}

// Lock admits one at a time, and leaves no file.
func TestLockAdmitsOneAtATime(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the system has no such lock
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "secret")
	var inside, counted atomic.Int64 // atomic, because the race detector does not see the lock
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			unlock, err := Lock(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d have the lock", n)
			}
			runtime.Gosched()
			n := counted.Add(1)
			inside.Add(-1)
			if n%2 == 0 { // the others write nothing
				err = os.Remove(name) // so some calls find no file
			} else if n%4 == 1 {
				err = WriteFile(name, []byte("content"))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(dir); counted.Load() != 50 || err != nil || len(entries) > 0 {
		t.Errorf("%d had the lock; %d files left, %v", counted.Load(), len(entries), err)
	}
	if _, err := Lock(filepath.Join(dir, "missing", "secret")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(link); err == nil {
		t.Error("a link to nothing was locked")
	}
}

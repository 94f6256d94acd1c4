package mount

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio"
	"lwio/lwiotest"
)

// names returns the sorted names of a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// A file that is removed, or replaced, while it is open can be used up to its close, as POSIX says. In between it has no
// name in the mount; afterwards nothing is left at the server.
func TestOpenFileOutlivesItsName(t *testing.T) {
	for name, x := range map[string]struct {
		lose func(dir string) error
		left []string
	}{
		"removed": {func(dir string) error { return os.Remove(filepath.Join(dir, "f")) }, []string{"g"}},
		"replaced": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "f"))
		}, []string{"f"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			dir := mounted(t, s, nil)
			for _, n := range []string{"f", "g"} {
				if err := os.WriteFile(filepath.Join(dir, n), []byte("content of "+n), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := x.lose(dir); err != nil {
				t.Fatal(err)
			}
			if got := names(t, dir); !slices.Equal(got, x.left) {
				t.Errorf("names %q, want %q", got, x.left)
			}
			b := make([]byte, 20)
			if n, err := f.ReadAt(b, 0); string(b[:n]) != "content of f" || !errors.Is(err, io.EOF) {
				t.Errorf("%q, %v", b[:n], err)
			}
			if _, err := f.WriteAt([]byte("more"), 12); err != nil {
				t.Error(err)
			}
			fi, err := f.Stat()
			if err != nil || fi.Size() != 16 || fi.Sys().(*syscall.Stat_t).Nlink != 0 {
				t.Errorf("%+v, %v", fi, err)
			}
			if err := f.Truncate(3); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			for start := time.Now(); ; time.Sleep(time.Millisecond) { // close(2) does not wait for the release
				left := names(t, s.Dir)
				if slices.Equal(left, x.left) {
					break
				}
				if time.Since(start) > 30*time.Second {
					t.Fatalf("the server has %q", left)
				}
			}
		})
	}
}

// Two mounts of a share see each other's changes at once, unless the kernel may keep them.
func TestMountsAreCoherent(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	a, b := mounted(t, s, nil), mounted(t, s, nil)
	fa, err := os.Create(filepath.Join(a, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer fa.Close()
	fb, err := os.Open(filepath.Join(b, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer fb.Close()
	got := make([]byte, 9)
	for i := range 50 {
		want := fmt.Appendf(nil, "record %02d", i)
		off := int64(i) * 5000
		if _, err := fa.WriteAt(want, off); err != nil {
			t.Fatal(err)
		}
		if _, err := fb.ReadAt(got, off); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
		if fi, err := fb.Stat(); err != nil || fi.Size() != off+9 {
			t.Fatalf("size %d, %v", fi.Size(), err)
		}
	}
	if err := fa.Truncate(1); err != nil {
		t.Fatal(err)
	}
	if _, err := fb.ReadAt(got, 0); !errors.Is(err, io.EOF) {
		t.Errorf("after the truncation: %v", err)
	}
	if err := os.Rename(filepath.Join(a, "f"), filepath.Join(a, "g")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b); !slices.Equal(got, []string{"g"}) {
		t.Errorf("names %q", got)
	}
	if _, err := os.Stat(filepath.Join(b, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
}

// A file that another host replaces under its name is another file, and not the one that was open.
func TestReplacedFileIsAnotherFile(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	at := filepath.Join(dir, "f")
	if err := os.WriteFile(at, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(s.Dir, "next")
	if err := errors.Join(os.WriteFile(next, []byte("new"), 0o600), os.Rename(next, filepath.Join(s.Dir, "f"))); err != nil {
		t.Fatal(err)
	}
	now, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(old, now) {
		t.Error("the new file is the old one")
	}
	if b, err := os.ReadFile(at); string(b) != "new" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A directory with more entries than fit in one answer is listed whole, each entry once, with its attributes.
func TestLongListing(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	var want []string
	for i := range 800 {
		name := fmt.Sprintf("%s-%04d", strings.Repeat("x", i%200), i)
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(s.Dir, name), make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		var i int
		if _, err := fmt.Sscanf(e.Name()[strings.LastIndexByte(e.Name(), '-')+1:], "%d", &i); err != nil {
			t.Fatal(err)
		}
		if fi, err := e.Info(); err != nil || fi.Size() != int64(i) {
			t.Fatalf("%s: %v, %v", e.Name(), fi, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}

// A call that cannot succeed has the errno that POSIX names.
func TestRefusedCalls(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.Mkdir(at("d"), 0o700), os.Mkdir(at("d/e"), 0o700), os.WriteFile(at("f"), nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range map[string]struct {
		err  error
		want syscall.Errno
	}{
		"no file":                 {func() error { _, err := os.Stat(at("none")); return err }(), syscall.ENOENT},
		"no directory":            {os.WriteFile(at("none/f"), nil, 0o600), syscall.ENOENT},
		"a file as a directory":   {os.WriteFile(at("f/g"), nil, 0o600), syscall.ENOTDIR},
		"a name twice":            {os.Mkdir(at("d"), 0o700), syscall.EEXIST},
		"a directory with files":  {unix.Rmdir(at("d")), syscall.ENOTEMPTY},
		"unlink of a directory":   {unix.Unlink(at("d")), syscall.EISDIR},
		"rmdir of a file":         {unix.Rmdir(at("f")), syscall.ENOTDIR},
		"a long name":             {os.WriteFile(at(strings.Repeat("x", 256)), nil, 0o600), syscall.ENAMETOOLONG},
		"a file over a directory": {unix.Rename(at("f"), at("d")), syscall.EISDIR},
		"a directory over a file": {unix.Rename(at("d"), at("f")), syscall.ENOTDIR},
		"over a full directory": {func() error {
			if err := os.Mkdir(at("other"), 0o700); err != nil {
				t.Fatal(err)
			}
			return unix.Rename(at("other"), at("d"))
		}(), syscall.ENOTEMPTY},
		"another owner":                  {os.Chown(at("f"), 12345, -1), syscall.EPERM},
		"a symbolic link":                {os.Symlink("f", at("l")), syscall.EOPNOTSUPP},
		"a hard link":                    {os.Link(at("f"), at("l")), syscall.EOPNOTSUPP},
		"a device":                       {unix.Mkfifo(at("p"), 0o600), syscall.EOPNOTSUPP},
		"an attribute":                   {unix.Setxattr(at("f"), "user.a", []byte("b"), 0), syscall.EOPNOTSUPP},
		"an exchange":                    {unix.Renameat2(unix.AT_FDCWD, at("f"), unix.AT_FDCWD, at("d"), unix.RENAME_EXCHANGE), syscall.EINVAL},
		"a name that SMB does not carry": {os.WriteFile(at("a:b"), nil, 0o600), syscall.EINVAL},
	} {
		if !errors.Is(x.err, x.want) {
			t.Errorf("%s: %v, want %v", name, x.err, x.want)
		}
	}
	readOnly := mounted(t, s, func(c *Config) { c.ReadOnly = true })
	if err := os.WriteFile(filepath.Join(readOnly, "f"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a mount that is read-only: %v", err)
	}
}

// Without its server the calls of a mount fail within the time limit of the client, and the mount can be removed.
func TestCallsEndWithoutServer(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c := s.Client(&lwio.Config{Timeout: time.Second, ReconnectTimeout: -1})
	dir := mounted(t, s, func(cfg *Config) { cfg.Client = c })
	at := filepath.Join(dir, "f")
	f, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("data")); err == nil {
		t.Error("a write without a server succeeds")
	}
	if _, err := os.Stat(at); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a name without a server: %v", err)
	}
	if err := f.Sync(); err == nil {
		t.Error("a sync without a server succeeds")
	}
}

// A mount that is in use is removed from its directory at once.
func TestUnmountInUse(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	cfg := config(t, s)
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(cfg.Dir, syscall.MNT_DETACH) }) // of a test that failed
	f, err := os.Create(filepath.Join(cfg.Dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, cfg.Dir); len(got) != 0 {
		t.Errorf("the directory has %q", got)
	}
	if _, err := f.Write([]byte("data")); err != nil {
		t.Errorf("the open file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	m.Wait()
	if b, err := os.ReadFile(filepath.Join(s.Dir, "f")); string(b) != "data" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Random operations on a file of a mount, of one that the kernel caches too, and of a local directory have the same
// results, as those of the program fsx.
func TestFileIsLikeLocalFile(t *testing.T) {
	for name, change := range map[string]func(*Config){"direct": nil, "page cache": func(c *Config) { c.PageCache = true }} {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			pair := [2]*os.File{}
			dirs := [2]string{mounted(t, s, change), t.TempDir()}
			open := func(flags int) {
				for i, dir := range dirs {
					if pair[i] != nil {
						if err := pair[i].Close(); err != nil {
							t.Fatal(err)
						}
					}
					f, err := os.OpenFile(filepath.Join(dir, "f"), flags, 0o600)
					if err != nil {
						t.Fatal(err)
					}
					pair[i] = f
				}
			}
			open(os.O_RDWR | os.O_CREATE)
			defer func() { pair[0].Close(); pair[1].Close() }()
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			const most = 3 << 20
			for i := range 400 {
				off, n := r.Int64N(most), 1+r.IntN(1<<r.IntN(19))
				var what string
				var results [2]string
				switch r.IntN(8) {
				case 0, 1, 2:
					what = fmt.Sprintf("write of %d bytes at %d", n, off)
					b := make([]byte, n)
					for j := range b {
						b[j] = byte(r.Uint32())
					}
					for i, f := range pair {
						k, err := f.WriteAt(b, off)
						results[i] = fmt.Sprint(k, err)
					}
				case 3, 4, 5:
					what = fmt.Sprintf("read of %d bytes at %d", n, off)
					for i, f := range pair {
						b := make([]byte, n)
						k, err := f.ReadAt(b, off)
						results[i] = fmt.Sprint(k, err, string(b[:k]))
					}
				case 6:
					what = fmt.Sprintf("truncation to %d", off)
					for i, f := range pair {
						results[i] = fmt.Sprint(f.Truncate(off) == nil)
					}
				case 7:
					what = "another open"
					open(os.O_RDWR)
				}
				if results[0] != results[1] {
					t.Fatalf("seed %d, operation %d, %s: other result than that of a local file", seed, i, what)
				}
				a, errA := pair[0].Stat()
				b, errB := pair[1].Stat()
				if errA != nil || errB != nil || a.Size() != b.Size() {
					t.Fatalf("seed %d, operation %d, %s: sizes %v, %v", seed, i, what, a.Size(), b.Size())
				}
			}
		})
	}
}

// Reads at the same time have their own data each: the buffer of a read is used again when the kernel has its data.
func TestReadsAtTheSameTime(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	const block, blocks = 8 << 10, 256
	content := make([]byte, block*blocks)
	for i := range blocks {
		copy(content[i*block:], bytes.Repeat([]byte{byte(i)}, block))
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "f"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			r, b := rand.New(rand.NewPCG(uint64(i), 0)), make([]byte, block)
			for range 200 {
				at := r.IntN(blocks)
				if _, err := f.ReadAt(b, int64(at)*block); err != nil || !bytes.Equal(b, content[at*block:][:block]) {
					t.Errorf("block %d: %v, or the data of another block", at, err)
					return
				}
			}
		})
	}
	readers.Wait()
}

// The times that a program sets reach the server, for open files and directories too.
func TestTimesAreSet(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	accessed, modified := time.Unix(1_000_000_000, 123_456_700), time.Unix(1_200_000_000, 765_432_100)
	for _, name := range []string{"f", "d"} {
		if err := os.Chtimes(filepath.Join(dir, name), accessed, modified); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{dir, s.Dir} {
			fi, err := os.Stat(filepath.Join(at, name))
			if err != nil {
				t.Fatal(err)
			}
			a := fi.Sys().(*syscall.Stat_t).Atim
			if !fi.ModTime().Equal(modified) || !time.Unix(a.Unix()).Equal(accessed) {
				t.Errorf("%s in %s: %v and %v", name, at, time.Unix(a.Unix()), fi.ModTime())
			}
		}
	}
	if err := os.Chtimes(f.Name(), time.Time{}, accessed); err != nil { // leaves the other time
		t.Fatal(err)
	}
	if fi, err := f.Stat(); err != nil || !fi.ModTime().Equal(accessed) || !time.Unix(fi.Sys().(*syscall.Stat_t).Atim.Unix()).Equal(accessed) {
		t.Errorf("%+v, %v", fi, err)
	}
}

// A rename that fails leaves the target as it was: a file that is open here, and a directory.
func TestFailedRenameKeepsTarget(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, func(c *Config) { c.Remember = time.Hour })
	at := func(name string) string { return filepath.Join(dir, name) }
	f, err := os.Create(at("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.WriteFile(at("g"), []byte("new"), 0o600), os.Mkdir(at("d"), 0o700), os.Mkdir(at("e"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(at("e")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"g", "e"} { // behind the back of the mount: the kernel still knows them
		if err := os.Remove(filepath.Join(s.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for from, target := range map[string]string{"g": "f", "e": "d"} {
		if err := unix.Rename(at(from), at(target)); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s to %s: %v", from, target, err)
		}
	}
	if _, err := f.WriteString("content"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(at("f")); string(b) != "content" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"d", "f"}) {
		t.Errorf("names %q", got)
	}
}

// Files that are read-only can be removed and replaced, as POSIX has it, and made writable again. A sync by a descriptor for
// reading, and of a directory, succeed.
func TestReadOnlyFilesAndSyncs(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	dir := mounted(t, s, nil)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"removed", "replaced", "changed", "other"} {
		if err := errors.Join(os.WriteFile(at(name), []byte(name), 0o600), os.Chmod(at(name), 0o444)); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || fi.Mode()&0o222 != 0 {
			t.Fatalf("%v, %v", fi, err)
		}
	}
	if err := errors.Join(os.Remove(at("removed")), os.Rename(at("other"), at("replaced")), os.Chmod(at("changed"), 0o644),
		os.WriteFile(at("changed"), []byte("again"), 0o600)); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"changed", "replaced"}) {
		t.Errorf("names %q", got)
	}
	if b, err := os.ReadFile(at("replaced")); string(b) != "other" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"changed", "."} {
		f, err := os.Open(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

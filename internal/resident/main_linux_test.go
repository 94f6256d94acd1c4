package resident

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const page = 4 << 10

// newCache makes a cache that the test closes.
func newCache(t testing.TB, cfg Config) *Cache {
	t.Helper()
	before := lockedMemory(t)
	c := New(cfg)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if s := c.Stats(); s.Bytes != 0 || s.Promotions != s.Demotions || c.segments != 0 || len(c.chunks) != 0 || len(c.files) != 0 {
			t.Errorf("after Close: %+v, %d segments, %d chunks, %d files", s, c.segments, len(c.chunks), len(c.files))
		}
		if now := lockedMemory(t); now != before {
			t.Errorf("%d bytes are locked, %d were", now, before)
		}
	})
	return c
}

// lockedMemory is what the process has locked, in bytes.
func lockedMemory(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "VmLck:")
	n, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// pattern fills p with what a file has from off on: each 8 bytes say where they are.
func pattern(p []byte, off int64) []byte {
	var word [8]byte
	for i := 0; i < len(p); {
		at := off + int64(i)
		binary.LittleEndian.PutUint64(word[:], uint64(at/8+1))
		i += copy(p[i:], word[at%8:])
	}
	return p
}

// patternFile makes a file of size bytes of the pattern.
func patternFile(t testing.TB, dir string, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(pattern(make([]byte, size), 0)); err != nil {
		t.Fatal(err)
	}
	return f
}

// diskDir is a directory of a file system whose files can be kept.
func diskDir(t testing.TB) string {
	t.Helper()
	if DefaultBudget() < 4*ChunkSize {
		t.Skip("this process may lock too little memory")
	}
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	f := file{fs: int64(st.Type)}
	if !f.fits(-1) {
		t.Skipf("the scratch directory is on a file system (%#x) that is not mapped", st.Type)
	}
	return dir
}

// memoryDir is a directory in memory.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "resident") //nolint:usetesting // must be in memory
	if err != nil {
		t.Skip("no file system in memory: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// fillsHoles tells whether holes of a file can be kept: of one in memory they cannot, where the
// scratch directory may be too.
func fillsHoles(t testing.TB, f *os.File) bool {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Type != unix.TMPFS_MAGIC
}

// view opens a view of a file, as that with number 1, which the test closes.
func view(t testing.TB, c *Cache, f *os.File) *View {
	t.Helper()
	v := c.Open(Key{Number: 1}, f)
	if v.file == nil {
		t.Fatal("no view of an open file")
	}
	t.Cleanup(v.Close)
	return &v
}

// promoteNow promotes the chunk of an offset as the goroutine of its device would, which the test
// does without; it tells whether its first page is there now.
func promoteNow(t testing.TB, v *View, off int64) bool {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(v.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	v.file.c.consider(proposal{v.file, fd, uint64(off) >> chunkBits})
	return v.file.find(off, 1) != nil
}

// atWork reports whether the cache has a goroutine.
func atWork(c *Cache) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running > 0
}

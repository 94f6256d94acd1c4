package posix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/vfs"
)

// openHandle opens a file of dir through a Dir, for both.
func openHandle(t *testing.T, dir, name string) *file {
	t.Helper()
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	h, err := d.Open(name, vfs.HandleMode{Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h.(*file)
}

// Cached bytes are read without waiting, others are not; of a range that is cached in part the
// first part is returned with ok false.
//
// Source: [LWIO §Read] [OP-92a]
func TestReadCachedReadsCachedPartOnly(t *testing.T) {
	const size = 4 << 20
	dir := t.TempDir()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i >> 10)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	h := openHandle(t, dir, "file")
	p := make([]byte, size)
	n, ok, err := h.ReadCached(p, 0)
	switch readMode(h.mode.Load()) {
	case readNever:
		skip.Test(t, "the scratch directory's file system cannot report cached pages")
	case readPlain:
		skip.Test(t, "the scratch directory is in memory")
	}
	for tries := 1; !ok && err == nil && tries < cachedTries; tries++ { // the system may have taken some away
		if _, err := h.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
		n, ok, err = h.ReadCached(p, 0)
	}
	if !ok || n != size || err != nil || !bytes.Equal(p, data) {
		t.Fatalf("just written: %d, %v, %v", n, ok, err)
	}
	if err := h.Sync(); err != nil {
		t.Fatal(err)
	}
	// Without read-ahead, little is cached after a small read. But a read that does not wait makes
	// the system load the missing pages: on a busy processor they can be cached a moment later, and
	// all of them in the end.
	if err := unix.Fadvise(h.fd, 0, 0, unix.FADV_RANDOM); err != nil {
		t.Fatal(err)
	}
	for range cachedTries {
		if err := unix.Fadvise(h.fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		if m, err := h.ReadAt(p[:100], 0); m != 100 || err != nil {
			t.Fatal(m, err)
		}
		clear(p)
		// Not aligned, so that one of the pieces is cached in part.
		const off = 50
		n, ok, err = h.ReadCached(p[:size-off], off)
		if err != nil || ok != (n == size-off) || !bytes.Equal(p[:n], data[off:off+n]) {
			t.Fatalf("the part that is cached: %d, %v, %v", n, ok, err)
		}
		if !ok && n >= 100-off {
			t.Logf("%d of %d bytes cached after a read of 100", n, size)
			return
		}
	}
	skip.Test(t, "the kernel cached all of the pages or none in each try", cachedTries)
}

// cachedTries bounds the attempts that depend on pages that the kernel keeps in memory.
const cachedTries = 1000

// A file system that refuses RWF_NOWAIT, but lives in memory, is read plainly.
func TestReadCachedReadsTmpfsPlainly(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "vfs") //nolint:usetesting // must be in memory
	if err != nil {
		skip.Test(t, "no file system in memory", err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := openHandle(t, dir, "file")
	p := make([]byte, 100)
	for off, want := range []string{"content", "ontent"} {
		if n, ok, err := h.ReadCached(p, int64(off)); !ok || err != nil || string(p[:n]) != want {
			t.Errorf("%q, %v, %v", p[:n], ok, err)
		}
	}
	if n, ok, err := h.ReadCached(p, 7); n != 0 || !ok || err != nil {
		t.Errorf("at the end: %d, %v, %v", n, ok, err)
	}
}

// A disk that is really full, and links that cannot be renamed across it.
func TestFullDiskReportsWrittenBytes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		skip.Test(t, "not allowed to mount a small disk", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h, err := d.Create("file", vfs.HandleMode{Write: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, durable := range []bool{false, true} {
		n, err := h.WriteAt(make([]byte, 256<<10), 0, durable)
		if ntstatus.Of(err) != ntstatus.DiskFull || n <= 0 || n > 64<<10 {
			t.Errorf("durable %v: %d bytes, %v", durable, n, err)
		}
	}
	v, err := d.Volume()
	if err != nil || v.Total != 64<<10 || v.Available != 0 || v.FileSystem != "tmpfs" || v.MaxName != 255 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestVolumeDescribesFileSystem(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Volume()
	if err != nil || v.Total == 0 || v.Free > v.Total || v.BlockSize == 0 || v.ReadOnly || v.Serial == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	d.Close()
	if _, err := d.Volume(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

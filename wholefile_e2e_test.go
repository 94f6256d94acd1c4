package lwio_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio"
	"lwio/lwiotest"
)

// Files of each size are written and read whole, in place of a file or not, and their heads are read. Nothing
// else is left in the directory.
func TestWholeFilesOfEachSize(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		for i, size := range []int{0, 1, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3<<20 + 5, 7} {
			want := random(size, byte(i))
			must(t, c.WriteFile(ctx, "f", want))
			if got, err := os.ReadFile(filepath.Join(s.Dir, "f")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes written: %d at the server, %v", size, len(got), err)
			}
			if got, err := c.ReadFile(ctx, "f"); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes written: %d read, %v", size, len(got), err)
			}
			if got, err := fs.ReadFile(c.FS(ctx), "f"); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes written: %d read of the file system, %v", size, len(got), err)
			}
			for _, room := range []int{0, 1, size, size + 1, 64 << 10, 1 << 20} {
				p := bytes.Repeat([]byte{0xEE}, room)
				n, info, err := c.ReadHead(ctx, "f", p)
				if err != nil || n != min(room, size) || info.Size() != int64(size) || info.Name() != "f" || !bytes.Equal(p[:n], want[:n]) {
					t.Errorf("%d bytes of %d: %d, %v, %v", room, size, n, info, err)
				}
				if !bytes.Equal(p[n:], bytes.Repeat([]byte{0xEE}, room-n)) {
					t.Errorf("%d bytes of %d: memory behind the data is changed", room, size)
				}
			}
		}
		if list, err := c.ReadDir(ctx, "."); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// Whole files of an encrypted session, and of a client that requires RDMA, are the same.
func TestWholeFilesWithRequirements(t *testing.T) {
	for name, cfg := range map[string]lwio.Config{
		"encryption": {RequireEncryption: true},
		"RDMA":       {RequireRDMA: true, Providers: lwio.DefaultProviders()},
	} {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			c, ctx, want := s.Client(&cfg), t.Context(), random(5000, 1)
			must(t, c.WriteFile(ctx, "f", want))
			got, err := c.ReadFile(ctx, "f")
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if st := c.Stats(); cfg.RequireRDMA != (st.SMB.ReadBytes == 0 && st.SMB.WrittenBytes == 0) {
				t.Errorf("bytes over SMB: %+v", st.SMB)
			}
		})
	}
}

// A refused WriteFile leaves the old content, and no other file.
func TestRefusedWriteFileLeavesOldContent(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	c, ctx := s.Client(nil), t.Context()
	must(t, os.Mkdir(filepath.Join(s.Dir, "d"), 0o700))
	must(t, os.WriteFile(filepath.Join(s.Dir, "busy"), []byte("old"), 0o600))
	busy, err := c.Open(ctx, "busy")
	must(t, err)
	defer busy.Close()
	for name, want := range map[string]error{
		"d": syscall.EISDIR, ".": syscall.EISDIR, "": syscall.EISDIR, "none/f": fs.ErrNotExist, "busy": fs.ErrPermission, "a:b": fs.ErrInvalid,
	} {
		for _, size := range []int{0, 100, 100_000} {
			var e *lwio.Error
			if err := c.WriteFile(ctx, name, make([]byte, size)); !errors.Is(err, want) || !errors.As(err, &e) {
				t.Errorf("%d bytes as %q: %v", size, name, err)
			}
		}
	}
	if got, err := os.ReadFile(filepath.Join(s.Dir, "busy")); string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if list, err := os.ReadDir(s.Dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	for name, want := range map[string]error{"d": syscall.EISDIR, ".": syscall.EISDIR, "none": fs.ErrNotExist, "a:b": fs.ErrInvalid} {
		if b, err := c.ReadFile(ctx, name); !errors.Is(err, want) || b != nil {
			t.Errorf("%q: %v", name, err)
		}
		if n, info, err := c.ReadHead(ctx, name, make([]byte, 10)); !errors.Is(err, want) || n != 0 || info != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	must(t, c.Close())
	for _, err := range []error{c.WriteFile(ctx, "f", nil), func() error { _, err := c.ReadFile(ctx, "f"); return err }()} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// BenchmarkWholeFiles reads and writes files of 4 KiB from 16 goroutines.
func BenchmarkWholeFiles(b *testing.B) {
	s := lwiotest.NewServer(b, &lwiotest.Config{SMBOnly: true})
	c, ctx, data := s.Client(nil), b.Context(), random(4096, 1)
	for i := range 16 {
		must(b, os.WriteFile(filepath.Join(s.Dir, strconv.Itoa(i)), data, 0o600))
	}
	for name, do := range map[string]func(name string, p []byte) error{
		"read":  func(name string, p []byte) error { _, _, err := c.ReadHead(ctx, name, p); return err },
		"write": func(name string, _ []byte) error { return c.WriteFile(ctx, name, data) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var next atomic.Int64
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					p, name := make([]byte, 64<<10), strconv.Itoa(i)
					for next.Add(1) <= int64(b.N) {
						if err := do(name, p); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

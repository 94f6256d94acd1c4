package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lwio"
	"lwio/lwiotest"
)

// repeated is n bytes that are p over and over.
func repeated(p []byte, n int) []byte { return bytes.Repeat(p, n/len(p)+1)[:n] }

// inBatch is File.WriteSame by a batch.
func inBatch(c *lwio.Client, f *lwio.File, p []byte, off, n int64) (int64, error) {
	b := c.NewBatch(1)
	defer b.Close()
	if err := b.WriteSame(f, p, off, n, 0); err != nil {
		return 0, err
	}
	clear(p) // it is the caller's again
	list, err := b.Wait(context.Background(), 1)
	if err != nil {
		return 0, err
	}
	return int64(list[0].N), list[0].Err
}

// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-51], [OP-75], [OP-76], [OP-77], [OP-78]
func TestWriteSame(t *testing.T) {
	testWriteSame(t, func(c *lwio.Client, f *lwio.File, p []byte, off, n int64) (int64, error) {
		return f.WriteSame(t.Context(), p, off, n)
	})
}

// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-51], [OP-75], [OP-76], [OP-77], [OP-78]
func TestWriteSameInBatch(t *testing.T) { testWriteSame(t, inBatch) }

func testWriteSame(t *testing.T, do func(c *lwio.Client, f *lwio.File, p []byte, off, n int64) (int64, error)) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|lwio.Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := random(4<<20, 3)
		if _, err := f.WriteAt(want, 0); err != nil {
			t.Fatal(err)
		}
		written := len(want)
		page := random(4096, 4)
		for _, r := range []struct{ size, off, n int }{
			{1, 0, 1}, {4096, 7, 10_000}, {512, 1 << 20, 512 << 10}, {4096, 0, 512<<10 + 1}, {16, 3, 3<<20 + 5}, {4096, 5, 100},
			{64, 4<<20 - 10, 10}, {2, 9, 4095}, {1024, 9, 0}, {4096, 4<<20 - 100, 100_000},
		} {
			n, err := do(c, f, bytes.Clone(page[:r.size]), int64(r.off), int64(r.n))
			if n != int64(r.n) || err != nil {
				t.Fatalf("%+v: %d, %v", r, n, err)
			}
			written += r.n
			want = append(want[:r.off], append(repeated(page[:r.size], r.n), want[min(r.off+r.n, len(want)):]...)...)
			got, err := os.ReadFile(filepath.Join(s.Dir, "f"))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%+v: wrong bytes at the server, %d instead of %d, %v", r, len(got), len(want), err)
			}
		}
		if n := c.Stats().RDMA.WrittenBytes + c.Stats().SMB.WrittenBytes; n != uint64(written) {
			t.Errorf("%d bytes written, counted %d", written, n)
		}
	})
}

// Data that WriteSame cannot write is refused before anything is sent.
//
// Source: [LWIO §Vectored Write], [OP-51], [OP-92c]
func TestWriteSameRefuses(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|lwio.Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		page := make([]byte, 8192)
		for _, r := range []struct {
			size   int
			off, n int64
		}{{0, 0, 10}, {3, 0, 10}, {8192, 0, 10}, {1, -1, 10}, {1, 0, -1}, {1, 1<<63 - 1, 1}} {
			if n, err := f.WriteSame(t.Context(), page[:r.size], r.off, r.n); n != 0 || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%+v: %d, %v", r, n, err)
			}
			if n, err := inBatch(c, f, page[:r.size], r.off, r.n); n != 0 || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%+v: in a batch %d, %v", r, n, err)
			}
		}
		buffered, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer buffered.Close()
		if _, err := buffered.WriteSame(t.Context(), page[:1], 0, 1); !errors.Is(err, fs.ErrInvalid) {
			t.Error(err)
		}
		readOnly, err := c.OpenFile(t.Context(), "f", os.O_RDONLY|lwio.Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer readOnly.Close()
		if n, err := readOnly.WriteSame(t.Context(), page[:1], 0, 10_000); n != 0 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := inBatch(c, readOnly, page[:1], 0, 10_000); n != 0 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("in a batch %d, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteSame(t.Context(), page[:1], 0, 1); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if info, err := buffered.Stat(t.Context()); err != nil || info.Size() != 0 {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
	})
}

package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"lwio"
	"lwio/internal/test/leakcheck"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// applied is a directory whose files count how often each byte was written. After each
// write a competitor overwrites the same bytes, as another client might: if a write is done
// twice, its bytes are there instead of the competitor's.
type applied struct {
	vfs.Backend
	mu    sync.Mutex
	times []int // of each byte
}

// rival is the byte that the competitor writes.
const rival = 0xEE

type appliedHandle struct {
	vfs.Handle
	to *applied
}

func newApplied(t *testing.T, dir string) *applied {
	d, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &applied{Backend: d}
}

func (b *applied) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := b.Backend.Open(path, how)
	return b.wrap(h, how, err)
}

func (b *applied) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := b.Backend.Create(path, how, readOnly)
	return b.wrap(h, how, err)
}

func (b *applied) wrap(h vfs.Handle, how vfs.HandleMode, err error) (vfs.Handle, error) {
	if err != nil || !how.Write {
		return h, err
	}
	return appliedHandle{h, b}, nil
}

func (h appliedHandle) WriteAt(p []byte, off int64, durable bool) (int, error) {
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	n, err := h.Handle.WriteAt(p, off, durable)
	if end := int(off) + n; end > len(h.to.times) {
		h.to.times = append(h.to.times, make([]int, end-len(h.to.times))...)
	}
	for i := range n {
		h.to.times[int(off)+i]++
	}
	if err == nil {
		_, err = h.Handle.WriteAt(bytes.Repeat([]byte{rival}, n), off, false)
	}
	return n, err
}

func (h appliedHandle) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	return h.WriteAt(bytes.Join(pieces, nil), off, durable)
}

// once checks that every byte up to n was written exactly once.
func (b *applied) once(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.times) != n {
		return fmt.Errorf("%d bytes were written, not %d", len(b.times), n)
	}
	for i, times := range b.times {
		if times != 1 {
			return fmt.Errorf("byte %d was written %d times", i, times)
		}
	}
	return nil
}

// resumption is a session that writes every byte of a file once, in all the ways that
// there are, and reads another file in between.
type resumption struct {
	t    *testing.T
	c    *lwio.Client
	f, g *lwio.File
	buf  *lwio.Buffer
	off  int64
	data []byte // of g
}

// step makes one call.
func (r *resumption) step(what string, call func(ctx context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), faultPatience)
	defer cancel()
	if err := call(ctx); err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
}

// wrote counts bytes as written.
func (r *resumption) wrote(n, want int, err error) error {
	r.off += int64(want)
	if err == nil && n != want {
		err = fmt.Errorf("%d bytes of %d", n, want)
	}
	return err
}

func (r *resumption) play() {
	r.step("open", func(ctx context.Context) (err error) {
		if r.f, err = r.c.OpenFile(ctx, "file", os.O_RDWR|os.O_CREATE|lwio.Unbuffered, 0); err == nil {
			r.g, err = r.c.Open(ctx, "data")
		}
		return err
	})
	r.step("alloc", func(ctx context.Context) (err error) { r.buf, err = r.c.Alloc(ctx, 200_000); return err })
	if r.f == nil || r.g == nil || r.buf == nil {
		return
	}
	defer r.buf.Close()
	for _, n := range []int{1, 3000, 5000, 600_000} {
		p := random(n, 1)
		r.step("write", func(ctx context.Context) error {
			n, err := r.f.WriteAtContext(ctx, p, r.off)
			return r.wrote(n, len(p), err)
		})
	}
	r.read("read", make([]byte, 500))
	r.read("read", make([]byte, len(r.data)))
	r.read("read a buffer", r.buf.Bytes()[7:][:150_000])
	r.step("write a buffer", func(ctx context.Context) error {
		p := r.buf.Bytes()
		n, err := r.f.WriteAtContext(ctx, p, r.off)
		return r.wrote(n, len(p), err)
	})
	segs := [][]byte{random(100, 2), r.buf.Bytes()[:70_000], random(90_000, 3)}
	r.step("write segments", func(ctx context.Context) error {
		n, err := r.f.WriteVec(ctx, segs, r.off)
		return r.wrote(n, 160_100, err)
	})
	r.step("write the same", func(ctx context.Context) error {
		n, err := r.f.WriteSame(ctx, []byte("same"), r.off, 600_000)
		return r.wrote(int(n), 600_000, err)
	})
	pages := [][]byte{make([]byte, 8192), make([]byte, 4096), make([]byte, 100)}
	r.step("read segments", func(ctx context.Context) error {
		_, err := r.g.ReadVec(ctx, pages, 0)
		if got := bytes.Join(pages, nil); err == nil && !bytes.Equal(got, r.data[:len(got)]) {
			err = errors.New("wrong bytes")
		}
		return err
	})
	r.batch()
	r.step("sync", r.f.Sync)
	r.step("close", func(context.Context) error { return errors.Join(r.f.Close(), r.g.Close()) })
}

func (r *resumption) read(what string, p []byte) {
	r.step(what, func(ctx context.Context) error {
		_, err := r.g.ReadAtContext(ctx, p, 0)
		if err == nil && !bytes.Equal(p, r.data[:len(p)]) {
			err = errors.New("wrong bytes")
		}
		return err
	})
}

// batch has writes and reads in flight at once.
func (r *resumption) batch() {
	b := r.c.NewBatch(16)
	defer b.Close()
	small := make([]byte, 300)
	r.step("batch", func(ctx context.Context) error {
		var errs []error
		for tag, p := range [][]byte{random(200, 4), random(9000, 5), r.buf.Bytes()[:100_000], random(100_000, 6)} {
			errs = append(errs, b.WriteAt(r.f, p, r.off, uint64(tag)))
			r.off += int64(len(p))
		}
		errs = append(errs, b.WriteSame(r.f, []byte("same"), r.off, 600_000, 4))
		r.off += 600_000
		errs = append(errs, b.ReadAt(r.g, small, 0, 10), b.ReadAt(r.g, r.buf.Bytes()[100_000:], 0, 11))
		list, err := b.Wait(ctx, b.Pending())
		errs = append(errs, err)
		for _, d := range list {
			if d.Err != nil {
				errs = append(errs, fmt.Errorf("operation %d: %w", d.Tag, d.Err))
			}
		}
		if !bytes.Equal(small, r.data[:300]) || !bytes.Equal(r.buf.Bytes()[100_000:], r.data[:100_000]) {
			errs = append(errs, errors.New("wrong bytes"))
		}
		return errors.Join(errs...)
	})
}

// resume plays the session over some connections with a fault function on one side. False
// says that there was no connection to begin with. It returns the client's statistics.
func resume(t *testing.T, connections int, decide func(fault.Attempt) fault.Action, wrap func(*fault.Config) (client, server rdma.Provider)) (lwio.Stats, bool) {
	before := leakcheck.Take()
	dir := t.TempDir()
	r := &resumption{t: t, data: random(200_000, 9)}
	if err := os.WriteFile(dir+"/data", r.data, 0o600); err != nil {
		t.Fatal(err)
	}
	client, server := wrap(&fault.Config{Fault: decide})
	backend := newApplied(t, dir)
	srv, err := lwiotest.Start(&lwiotest.Config{Backend: backend, Providers: []rdma.Provider{server}})
	if err != nil {
		t.Fatal(err)
	}
	var stats lwio.Stats
	r.c, err = lwio.Dial(t.Context(), srv.URL(), &lwio.Config{Providers: []rdma.Provider{client}, Connections: connections, RequireRDMA: true, ReconnectTimeout: faultPatience})
	dialled := err == nil
	if dialled {
		r.play()
		stats = r.c.Stats()
		if err := backend.once(int(r.off)); err != nil {
			t.Error(err)
		}
		if err := r.c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		got, err := os.ReadFile(dir + "/file")
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{rival}, int(r.off))) {
			t.Errorf("a write came after the write of another client, or not at all: %d bytes, %v", len(got), err)
		}
	}
	if err := srv.Close(); err != nil {
		t.Errorf("close the server: %v", err)
	}
	if err := before.Err(); err != nil {
		t.Errorf("leak: %v", err)
	}
	return stats, dialled
}

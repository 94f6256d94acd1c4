package fileio

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
)

// All requests that read into a buffer or write from it have the one handle of the buffer.
//
// Source: [LWIO §Read], [OP-91]
func TestBufferRequestsHaveOneHandle(t *testing.T) { onEach(t, testBufferRequestsHaveOneHandle) }

func testBufferRequestsHaveOneHandle(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(300_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	b := allocate(t, c, len(want))
	p := b.Bytes()
	for _, r := range []struct{ at, n int }{{0, 1}, {5, 100}, {4096, 5000}, {0, len(want)}, {len(want) - 1, 1}} {
		clear(p)
		if n, err := f.ReadAt(p[r.at:][:r.n], int64(r.at)); n != r.n || err != nil || !bytes.Equal(p[r.at:][:r.n], want[r.at:][:r.n]) {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		if r.at > 0 && p[r.at-1] != 0 || r.at+r.n < len(p) && p[r.at+r.n] != 0 {
			t.Errorf("%+v: bytes beside it changed", r)
		}
	}
	copy(p, want)
	for _, r := range []struct{ at, n int }{{3, 10}, {77, 200_000}} {
		if n, err := g.WriteAt(p[r.at:][:r.n], 0); n != r.n || err != nil {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		share.mu.Lock()
		file := share.files["g"]
		share.mu.Unlock()
		if !bytes.Equal(file.content()[:r.n], want[r.at:][:r.n]) {
			t.Errorf("%+v: wrong bytes at the server", r)
		}
	}
	reads := (<-s.accepted).seen(wire.OpRead)
	first := reads[0] // into the first byte
	for _, h := range reads {
		if h.DataMh != first.DataMh || h.DataVa < first.DataVa || h.DataVa+uint64(h.Length) > first.DataVa+uint64(len(p)) {
			t.Errorf("a read went elsewhere: %+v", h)
		}
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

// A buffer that the server may still write to is refused until the server has
// answered; another is not.
//
// Source: [OP-113]
func TestBufferBusyAfterGivenUpRead(t *testing.T) { onEach(t, testBufferBusyAfterGivenUpRead) }

func testBufferBusyAfterGivenUpRead(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	held := make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpRead && h.Offset == 7 {
			held <- func() { c.answer(h, body) }
			return true
		}
		return false
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	b, other := allocate(t, c, 10_000), allocate(t, c, 10_000)
	ctx := dueWhen(t, func() bool { return len(held) == 1 })
	if _, err := f.ReadAtContext(ctx, b.Bytes()[:5000], 7); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, read := f.ReadAt(b.Bytes()[6000:], 0)
	_, write := f.WriteAt(b.Bytes()[6000:], 0)
	if !errors.Is(read, rdmaconn.ErrBufferBusy) || !errors.Is(write, rdmaconn.ErrBufferBusy) || !b.Busy() {
		t.Errorf("%v, %v, %v", read, write, b.Busy())
	}
	if _, err := f.ReadAt(other.Bytes(), 0); err != nil || other.Busy() {
		t.Error(err)
	}
	(<-held)()
	waitFor(t, func() bool { return !b.Busy() })
	if _, err := f.ReadAt(b.Bytes(), 0); err != nil || !bytes.Equal(b.Bytes(), pattern(100_000)[:10_000]) {
		t.Error(err)
	}
	if !c.Transport().RDMA() {
		t.Error(c.Transport())
	}
}

// A buffer outlives its connection as memory like any other.
//
// Source: [OP-94f], [OP-113]
func TestBufferAfterDisconnect(t *testing.T) { onEach(t, testBufferAfterDisconnect) }

func testBufferAfterDisconnect(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(100_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead {
			c.cut()
		}
		return h.Opcode == wire.OpRead
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	b := allocate(t, c, len(want))
	for range 2 {
		clear(b.Bytes())
		if n, err := f.ReadAt(b.Bytes(), 0); n != len(want) || err != nil || !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if c.Transport().RDMA() || b.Busy() {
		t.Error(c.Transport(), b.Busy())
	}
	later := allocate(t, c, 100)
	if n, err := f.ReadAt(later.Bytes(), 5); n != 100 || err != nil {
		t.Error(n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	b.Bytes()[0]++ // still there
	for _, size := range []int{0, -1, maxBuffer + 1} {
		if _, err := c.Alloc(t.Context(), size); err == nil {
			t.Errorf("a buffer of %d bytes", size)
		}
	}
}

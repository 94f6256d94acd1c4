package fileio

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// cut cuts memory into segments of n bytes.
func cut(p []byte, n int) (segs [][]byte) {
	for len(p) > 0 {
		segs, p = append(segs, p[:min(n, len(p))]), p[min(n, len(p)):]
	}
	return segs
}

// Segments of whole pages are one message as long as they fit; a write is as few
// messages as hold it.
//
// Source: [LWIO §Vectored Read], [LWIO §Vectored Write], [OP-60b], [OP-61], [OP-80], [OP-83]
func TestVecUsesFewestMessages(t *testing.T) { onEach(t, testVecUsesFewestMessages) }

func testVecUsesFewestMessages(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(2 << 20)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.mu.Lock()
	s.recvSize = 64 << 10
	s.mu.Unlock()
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	buf := allocate(t, c, 1<<20)
	conn := <-s.accepted
	for _, r := range []struct{ seg, total, messages, page int }{
		{4096, 1 << 20, 1, 4096}, {4096, 9000, 1, 4096}, {512, 512*300 + 5, 2, 512}, {64 << 10, 1 << 20, 1, 32 << 10},
		{12288, 100_000, 1, 4096}, {1000, 10_000, 0, 0}, {5000, 5000, 1, 32 << 10},
	} {
		before := len(conn.seen(wire.OpVecRead))
		clear(buf.Bytes())
		if n, err := f.ReadVec(t.Context(), cut(buf.Bytes()[:r.total], r.seg), 77); n != r.total || err != nil || !bytes.Equal(buf.Bytes()[:n], want[77:77+n]) {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		sent := conn.seen(wire.OpVecRead)[before:]
		if len(sent) != r.messages {
			t.Errorf("%+v: %d messages", r, len(sent))
		}
		for _, h := range sent {
			if int(h.PageSize) != r.page {
				t.Errorf("%+v: pages of %d", r, h.PageSize)
			}
		}
	}
	for _, r := range []struct{ seg, total, messages int }{{4096, 60_000, 1}, {4096, 64 << 10, 2}, {1000, 15_000, 1}, {100, 16_00, 2}, {70_000, 140_000, 3}} {
		before := len(conn.seen(wire.OpVecWrite))
		copy(buf.Bytes(), want[r.seg:])
		if n, err := g.WriteVec(t.Context(), cut(buf.Bytes()[:r.total], r.seg), 5); n != r.total || err != nil {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		share.mu.Lock()
		file := share.files["g"]
		share.mu.Unlock()
		if !bytes.Equal(file.content()[5:][:r.total], want[r.seg:][:r.total]) {
			t.Errorf("%+v: wrong bytes at the server", r)
		}
		if n := len(conn.seen(wire.OpVecWrite)) - before; n != r.messages {
			t.Errorf("%+v: %d messages", r, n)
		}
	}
}

// A vectored read that is given up leaves its buffer busy, and memory that was
// registered for it alone unchanged.
//
// Source: [OP-113]
func TestVecReadGivenUp(t *testing.T) { onEach(t, testVecReadGivenUp) }

func testVecReadGivenUp(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	held := make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpVecRead {
			held <- func() { c.answer(h, body) }
		}
		return h.Opcode == wire.OpVecRead
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	first, second := allocate(t, c, 4096), allocate(t, c, 4096)
	ctx := dueWhen(t, func() bool { return len(held) == 1 })
	if _, err := f.ReadVec(ctx, [][]byte{first.Bytes(), second.Bytes()}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if !first.Busy() || second.Busy() {
		t.Errorf("busy: %v, %v; the second was registered for the call alone", first.Busy(), second.Busy())
	}
	(<-held)()
	waitFor(t, func() bool { return !first.Busy() })
	if !bytes.Equal(second.Bytes(), make([]byte, 4096)) {
		t.Error("memory changed after the call had returned")
	}
}

// failOnceProvider fails the registration of memory of one size once.
type failOnceProvider struct {
	rdma.Provider
	size int
	left *atomic.Int32 // registrations of that size until the one that fails
}

func (p failOnceProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return failOnceAdapter{a, p}, nil
}

type failOnceAdapter struct {
	rdma.Adapter
	p failOnceProvider
}

func (a failOnceAdapter) RegisterMemory(ctx context.Context, p []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	if len(p) == a.p.size && a.p.left.Add(-1) == 0 {
		return nil, rdma.StatusInsufficientResources
	}
	return a.Adapter.RegisterMemory(ctx, p, access)
}

// A vectored operation fails if a segment cannot be registered, or is tried again with all segments.
//
// Source: [OP-80], [OP-83]
func TestVecAfterFailedRegistration(t *testing.T) { onEach(t, testVecAfterFailedRegistration) }

func testVecAfterFailedRegistration(t *testing.T, on string) {
	const size = 4096
	share := newFakeShare()
	want := pattern(3 * size)
	share.put("f", want)
	share.put("g", nil)
	s := newRawServer(t, on, share)
	var left atomic.Int32
	var providers []rdma.Provider
	for _, p := range defaults() {
		providers = append(providers, failOnceProvider{p, size, &left})
	}
	c := s.connect(base.Config{Providers: providers})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	got := make([]byte, len(want))
	for range 2 { // the first time the files are registered at the server
		clear(got)
		left.Store(2)
		if n, err := f.ReadVec(t.Context(), cut(got, size), 0); left.Load() > 0 || err == nil && (n != len(got) || !bytes.Equal(got, want)) {
			t.Errorf("read: %d, %v", n, err)
		}
		left.Store(2)
		if n, err := g.WriteVec(t.Context(), cut(want, size), 0); left.Load() > 0 || err == nil && (n != len(want) || !bytes.Equal(share.files["g"].content(), want)) {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	if !c.Transport().RDMA() {
		t.Error(c.Transport())
	}
}

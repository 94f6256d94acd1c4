//go:build linux

package shm

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// byReference makes two sides. The passive side accepts data by reference and has mapped
// the region of the active side.
func byReference(tb testing.TB, cfg *Config, size int) (active, passive *side) {
	tb.Helper()
	active = newSide(tb, cfg, size)
	passive = newSideAs(tb, New(patient(nil)), size, rdma.QueuePairConfig{AcceptByReference: true})
	join(tb, active, passive)
	fill(active.mem)
	if res := active.refer(tb, passive, size); res.RemoteData != nil {
		tb.Fatal("data of an unknown region is by reference")
	}
	c, g := active.inside(), active.a.(*adapter).Domain.RegionOf(active.region)
	eventually(tb, "the region is mapped", func() bool { return c.exports.reachable(g) })
	return active, passive
}

// refer sends a header and, by reference, the rest of size bytes of the side's memory.
// The peer receives at offset 0 of its memory. refer returns the peer's result.
func (s *side) refer(tb testing.TB, peer *side, size int) rdma.Result {
	tb.Helper()
	if _, err := peer.qp.PostReceive([]rdma.ReceiveRequest{{SGL: peer.sge(0, len(peer.mem))}}); err != nil {
		tb.Fatal(err)
	}
	const header = 64
	sgl := append(s.sge(0, header), s.sge(header, size-header)...)
	s.post(tb, rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagByReference, SGL: sgl})
	if res := next(tb, s.icq); res.Status != rdma.StatusSuccess {
		tb.Fatal(res.Status)
	}
	res := next(tb, peer.rcq)
	if res.Status != rdma.StatusSuccess || res.Bytes != size {
		tb.Fatalf("%+v", res)
	}
	return res
}

// content returns the bytes of remote data.
func content(tb testing.TB, l rdma.RemoteData) (p []byte) {
	tb.Helper()
	if err := l.View(func(remote []byte) error { p = bytes.Clone(remote); return nil }); err != nil {
		tb.Fatal(err)
	}
	return p
}

// Data by reference goes neither through the ring nor into the receive. A side that does
// not accept references gets it in the receive. Source: [ND QueuePair.Send]
func TestDataByReferenceBypassesRing(t *testing.T) {
	const size = 200_000
	active, passive := byReference(t, nil, size)
	clear(passive.mem)
	before := active.inside().own.Tail.Load()
	res := active.refer(t, passive, size)
	if res.RemoteData == nil || res.RemoteData.Len() != size-64 {
		t.Fatalf("%+v", res)
	}
	if n := active.inside().own.Tail.Load() - before; n != 96 {
		t.Errorf("%d bytes went through the ring", n)
	}
	if !bytes.Equal(passive.mem[:64], active.mem[:64]) || !bytes.Equal(content(t, res.RemoteData), active.mem[64:size]) {
		t.Error("it arrives changed")
	}
	if !bytes.Equal(passive.mem[64:], make([]byte, len(passive.mem)-64)) {
		t.Error("data by reference went into the receive")
	}
	res.RemoteData.Release()
	if res := active.refer(t, passive, 64); res.RemoteData != nil {
		t.Error("an empty last piece is by reference")
	}

	passive.refer(t, active, size) // the active side does not accept references
	g := passive.a.(*adapter).Domain.RegionOf(passive.region)
	eventually(t, "the region is mapped", func() bool { return passive.inside().exports.reachable(g) })
	fill(passive.mem)
	before = passive.inside().own.Tail.Load()
	if back := passive.refer(t, active, size); back.RemoteData != nil || !bytes.Equal(active.mem[:size], passive.mem[:size]) {
		t.Errorf("%+v: it arrives changed, or by reference", back)
	}
	if n := passive.inside().own.Tail.Load() - before; n != 96 {
		t.Errorf("%d bytes went through the ring", n)
	}
}

// Memory without a remote right is never exported, and memory of Go is not either.
// Source: design decision 11
func TestPrivateMemoryIsNotByReference(t *testing.T) {
	active, passive := byReference(t, nil, 8192)
	m := must[rdma.Memory](t)(active.a.Alloc(t.Context(), 8192))
	heap := make([]byte, 8192)
	for name, region := range map[string]rdma.MemoryRegion{
		"without a remote right": must[rdma.MemoryRegion](t)(active.a.RegisterMemory(t.Context(), m.Bytes(), 0)),
		"of Go":                  must[rdma.MemoryRegion](t)(active.a.RegisterMemory(t.Context(), heap, readable)),
	} {
		active.mem, active.region = region.Bytes(), region
		fill(active.mem)
		for range 3 {
			if res := active.refer(t, passive, 8192); res.RemoteData != nil || !bytes.Equal(passive.mem[:8192], active.mem) {
				t.Fatalf("memory %s: %+v", name, res)
			}
		}
		if active.inside().exports.reachable(active.a.(*adapter).Domain.RegionOf(region)) {
			t.Errorf("memory %s can be by reference", name)
		}
	}
}

// The close of a region waits until all references to it are released.
// Source: [ND MemoryRegion.Deregister]
func TestReferenceHoldsRegion(t *testing.T) {
	active, passive := byReference(t, &Config{DrainTimeout: time.Minute}, 8192)
	first, second := active.refer(t, passive, 8192), active.refer(t, passive, 4096)
	closed := make(chan error, 1)
	go func() { closed <- active.region.Close() }()
	eventually(t, "the slot is cleared", func() bool { return active.inside().own.Slot(0).Key.Load() == 0 })
	first.RemoteData.Release()
	select {
	case <-closed:
		t.Fatal("the region is closed while it has references")
	case <-time.After(20 * time.Millisecond):
	}
	if !bytes.Equal(content(t, second.RemoteData), active.mem[64:4096]) {
		t.Error("remote data has changed")
	}
	second.RemoteData.Release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// A peer that does not release references in time keeps the old bytes until the
// connection ends, even after the close of the region and of its memory.
func TestUnreleasedReferenceKeepsOldBytes(t *testing.T) {
	active := newSide(t, &Config{DrainTimeout: 10 * time.Millisecond}, 4096)
	passive := newSideAs(t, New(patient(nil)), 8192, rdma.QueuePairConfig{AcceptByReference: true})
	join(t, active, passive)
	m := must[rdma.Memory](t)(active.a.Alloc(t.Context(), 8192))
	active.mem = m.Bytes()
	active.region = must[rdma.MemoryRegion](t)(active.a.RegisterMemory(t.Context(), m.Bytes(), readable))
	want := bytes.Clone(fill(active.mem))
	g := active.a.(*adapter).Domain.RegionOf(active.region)
	active.refer(t, passive, 8192)
	eventually(t, "the region is mapped", func() bool { return active.inside().exports.reachable(g) })
	data := active.refer(t, passive, 8192).RemoteData
	if err := active.region.Close(); err != nil {
		t.Fatal(err)
	}
	clear(active.mem)
	if !bytes.Equal(content(t, data), want[64:]) {
		t.Error("the sender changes remote data after the close of the region")
	}
	token := uint32(active.region.RemoteAddr().Token)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the memory is withdrawn", func() bool { return !passive.inside().mappings.knows(token) })
	if !bytes.Equal(content(t, data), want[64:]) {
		t.Error("the memory is unmapped under the reference")
	}
	mapped, peers := &passive.inside().a.p.mapped, &passive.inside().mappings.bytes
	held, charged := mapped.now.Load(), peers.Load()
	data.Release()
	if left := mapped.now.Load(); left != held-8192 {
		t.Errorf("%d bytes are mapped after the release, %d before", left, held)
	}
	if left := peers.Load(); left != charged-8192 || left < 0 {
		t.Errorf("the peer has %d of the bytes that it may have after the release, %d before", left, charged)
	}
}

// The end of a connection waits for calls of View, and ends all references.
func TestEndOfConnectionEndsReferences(t *testing.T) {
	active, passive := byReference(t, nil, 8192)
	used, unused := active.refer(t, passive, 8192).RemoteData, active.refer(t, passive, 8192).RemoteData
	closed := make(chan struct{})
	err := used.View(func(p []byte) error {
		go func() {
			defer close(closed)
			passive.qp.Close()
		}()
		eventually(t, "the connection ends", func() bool { return passive.inside().ending.Load() != nil })
		select {
		case <-closed:
			t.Error("the queue pair is closed during a View")
		case <-time.After(20 * time.Millisecond):
		}
		if !bytes.Equal(p, active.mem[64:8192]) {
			t.Error("the bytes differ")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-closed
	for _, l := range []rdma.RemoteData{used, unused} {
		if err := l.View(func([]byte) error { return nil }); !errors.Is(err, net.ErrClosed) {
			t.Errorf("use after the end: %v", err)
		}
		l.Release()
	}
}

// A panic in a View ends the View, and the connection can end.
func TestPanicEndsView(t *testing.T) {
	active, passive := byReference(t, nil, 8192)
	data := active.refer(t, passive, 8192).RemoteData
	func() {
		defer func() {
			if x := recover(); x != "a panic" {
				t.Errorf("recovered %v", x)
			}
		}()
		_ = data.View(func([]byte) error { panic("a panic") })
	}()
	refs := &passive.inside().references
	refs.mu.Lock()
	using := refs.viewing
	refs.mu.Unlock()
	if using != 0 {
		t.Fatalf("%d calls view remote data", using)
	}
	if !bytes.Equal(content(t, data), active.mem[64:8192]) {
		t.Error("remote data has changed")
	}
}

// A fault in remote data is an error, and ends the connection.
func TestFaultInViewEndsConnection(t *testing.T) {
	active, passive := byReference(t, nil, 8192)
	data := active.refer(t, passive, 8192).RemoteData
	gone := must[[]byte](t)(unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE))
	defer unix.Munmap(gone)
	var seen byte
	err := data.View(func([]byte) error { seen = gone[0]; return nil })
	if rdma.StatusOf(err) != rdma.StatusRemoteError || !errors.Is(err, errFault) || seen != 0 {
		t.Errorf("a fault: %v", err)
	}
	<-passive.inside().Finished()
}

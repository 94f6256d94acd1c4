//go:build linux

package shm

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// heap returns memory of the Go heap, and a region of all of it.
func (s *side) heap(tb testing.TB, size int) ([]byte, rdma.MemoryRegion) {
	tb.Helper()
	b := make([]byte, size)
	return b, must[rdma.MemoryRegion](tb)(s.a.RegisterMemory(tb.Context(), b, rdma.AccessLocalWrite))
}

// counting returns n bytes, none of them 0.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + i%251)
	}
	return b
}

// empty reports whether all bytes are zero.
func empty(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// post1 posts one receive.
func (s *side) post1(tb testing.TB, region rdma.MemoryRegion, off, n int) {
	tb.Helper()
	sgl := []rdma.SGE{{Region: region, Offset: off, Length: n}}
	if _, err := s.qp.PostReceive([]rdma.ReceiveRequest{{SGL: sgl}}); err != nil {
		tb.Fatal(err)
	}
}

// TrimIdle returns the pages of a used ring, and the pages of waiting receives. A large
// ring keeps its pages. The connection then continues.
func TestTrimIdleReturnsPages(t *testing.T) {
	for _, ringSize := range []int{ring.MinSize, 2 * ring.DefaultSize} {
		const slots, size = 4, 20 << 10
		active, passive := connected(t, &Config{RingSize: ringSize}, 1<<16)
		buf, region := passive.heap(t, slots*size)
		copy(active.mem, counting(size))
		round := func() {
			t.Helper()
			for i := range slots {
				passive.post1(t, region, i*size, size)
			}
			for i := range slots {
				active.post(t, rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, size)})
				if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess || res.Bytes != size {
					t.Fatalf("receive: %+v", res)
				}
				if !bytes.Equal(buf[i*size:][:size], active.mem[:size]) {
					t.Fatal("other bytes arrive")
				}
				if res := next(t, active.icq); res.Status != rdma.StatusSuccess {
					t.Fatalf("send: %+v", res)
				}
			}
			eventually(t, "the ring is drained", active.drained)
		}
		for range 2 {
			round()
			passive.qp.TrimIdle()
			if empty(buf) || empty(active.inside().own.Ring) {
				t.Fatal("TrimIdle of the peer, without waiting receives, returns pages")
			}
			for i := range slots {
				passive.post1(t, region, i*size, size)
			}
			passive.qp.TrimIdle()
			active.qp.TrimIdle()
			if !empty(buf) {
				t.Error("pages are left in the waiting receives")
			}
			if gone := empty(active.inside().own.Ring); gone != (ringSize <= ring.DefaultSize) {
				t.Errorf("a ring of %d bytes: returned %v", ringSize, gone)
			}
			for range slots {
				active.post(t, rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, size)})
				next(t, active.icq)
				next(t, passive.rcq)
			}
			if !bytes.Equal(buf[:size], active.mem[:size]) {
				t.Error("other bytes arrive after TrimIdle")
			}
		}
	}
}

// TrimIdle keeps entries in the ring that the peer has not taken.
func TestTrimIdleKeepsUntakenEntries(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	const size = 30_000
	buf, region := passive.heap(t, size)
	passive.post1(t, region, 0, size)
	copy(active.mem, counting(size))
	c := passive.inside()
	c.rxMu.Lock()
	active.post(t, rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, size)})
	active.qp.TrimIdle()
	passive.qp.TrimIdle()
	c.rxMu.Unlock()
	if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess || !bytes.Equal(buf, active.mem[:size]) {
		t.Errorf("%+v, or other bytes", res)
	}
}

// TrimIdle keeps the received part of a message in its receive.
func TestTrimIdleKeepsPartialReceive(t *testing.T) {
	const part, parts = 12 << 10, 4
	r, passive, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	for range 4 { // for the posted receives
		r.put(ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst}, ring.HeaderSize)
		next(t, passive.rcq)
	}
	buf, region := passive.heap(t, 2*part*parts)
	passive.post1(t, region, 0, part*parts)
	passive.post1(t, region, part*parts, part*parts)
	copy(buf[part*parts:], counting(part*parts))
	want := counting(part * parts)
	for i := range parts {
		e := ring.Entry{Kind: ring.Send, Length: part, Total: uint32(part * (parts - i))}
		if i == 0 {
			e.Flags = ring.FlagFirst
		}
		tail := int(r.own.Tail.Load() & uint64(len(r.own.Ring)-1))
		copy(r.own.Ring[tail+ring.HeaderSize:], want[i*part:][:part])
		r.put(e, ring.EntrySize(part))
		eventually(t, "the part is taken", func() bool { return r.peer.Head.Load() == r.own.Tail.Load() })
		passive.qp.TrimIdle()
	}
	if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess || !bytes.Equal(buf[:part*parts], want) {
		t.Errorf("%+v, or other bytes", res)
	}
	if !empty(buf[part*parts:]) {
		t.Error("the receive behind it keeps its pages")
	}
}

// A peer that writes the ring that it should read, removes its pages, and claims entries
// that it did not take, changes only its own input. It cannot write the words. Source:
// design decision 11
func TestTrimIdleBesideHostilePeer(t *testing.T) {
	r, passive, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(r.peer.Ring, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	copy(passive.mem, counting(len(passive.mem)))
	want := bytes.Clone(passive.mem)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for at := i % 64; at < len(r.peer.Ring); at += 509 {
				r.peer.Ring[at] = byte(i)
			}
			_ = unix.Madvise(r.peer.Ring, unix.MADV_REMOVE)
			r.own.Head.Store(r.peer.Tail.Load())
		}
	}()
	for range 200 {
		passive.post(t, rdma.Request{Op: rdma.OpSend, SGL: passive.sge(0, 5000)})
		passive.qp.TrimIdle()
		var res [1]rdma.Result // by polling, because the peer sends no wake-up
		eventually(t, "the message is sent", func() bool { n, _ := passive.icq.Poll(res[:]); return n == 1 })
		if res[0].Status != rdma.StatusSuccess {
			t.Fatalf("send: %+v", res[0])
		}
	}
	close(stop)
	<-stopped
	if !bytes.Equal(passive.mem, want) {
		t.Error("memory has changed")
	}
	if err := passive.conn.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}

// TrimIdle has no effect before the connection and after it.
func TestTrimIdleWithoutConnection(t *testing.T) {
	active, passive := newSide(t, nil, 4096), newSide(t, nil, 4096)
	active.qp.TrimIdle()
	join(t, active, passive)
	passive.qp.Close()
	if err := ends(t, active.conn); err == nil {
		t.Error("no error")
	}
	active.qp.TrimIdle()
	passive.qp.TrimIdle()
}

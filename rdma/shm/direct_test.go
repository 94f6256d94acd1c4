//go:build linux

package shm

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// fill makes p random.
func fill(p []byte) []byte {
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(p)
	return p
}

// After the first write, memory of Alloc is written without the ring, in all sizes, and
// no byte around the data changes. Source: [OP-89b], [ND QueuePair.Write]
func TestDirectWriteBypassesRing(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	fill(active.mem)
	active.introduce(t, passive.region)
	before := active.inside().own.Tail.Load()
	for _, n := range []int{1, 3, 7, 8, 9, 64, 4095, 4096, 65537, 1<<20 - 8} {
		for _, off := range []int{0, 3, 8} {
			if off+n > len(passive.mem) {
				continue
			}
			clear(passive.mem)
			if res := active.write(t, rdma.Request{SGL: active.sge(1, n), Remote: passive.at(off)}); res.Status != rdma.StatusSuccess {
				t.Fatal(res.Status)
			}
			if !bytes.Equal(passive.mem[off:off+n], active.mem[1:1+n]) {
				t.Fatalf("%d bytes at %d differ", n, off)
			}
			clear(passive.mem[off : off+n])
			if bytes.ContainsFunc(passive.mem, func(r rune) bool { return r != 0 }) {
				t.Fatalf("%d bytes at %d wrote beside their place", n, off)
			}
		}
	}
	if after := active.inside().own.Tail.Load(); after != before {
		t.Errorf("%d bytes went through the ring", after-before)
	}
}

// Pieces are placed one after another. An aligned word of two pieces is one store.
func TestDirectWriteGathersPieces(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	fill(active.mem)
	active.introduce(t, passive.region)
	sgl := append(append(active.sge(100, 1000), active.sge(7, 5)...), active.sge(3000, 10)...)
	active.write(t, rdma.Request{SGL: sgl, Remote: passive.at(16)})
	want := append(append(bytes.Clone(active.mem[100:1100]), active.mem[7:12]...), active.mem[3000:3010]...)
	if !bytes.Equal(passive.mem[16:16+len(want)], want) {
		t.Error("the pieces differ")
	}
	active.write(t, rdma.Request{SGL: append(active.sge(0, 3), active.sge(50, 5)...), Remote: passive.at(8)})
	if want := append(bytes.Clone(active.mem[:3]), active.mem[50:55]...); !bytes.Equal(passive.mem[8:16], want) {
		t.Error("the word differs")
	}
}

// Writes through the ring and direct writes take effect in the order of posting, as a
// poller of the last word sees it. Source: [ND QueuePair §Ordering], [OP-88]
func TestRingAndDirectWritesKeepOrder(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector does not see the order that a word in shared memory makes")
	}
	const size = 200_000
	active, passive := connected(t, nil, 1<<20)
	heap := make([]byte, size)
	other := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), heap, rdma.AccessRemoteWrite))
	active.introduce(t, passive.region)
	word := wordAt(passive.mem, 512<<10)
	for round := range 200 {
		mark := byte(round%100 + 1)
		for i := range active.mem[:size] {
			active.mem[i] = mark
		}
		active.post(t,
			rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, size), Remote: passive.at(0)},
			rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, size), Remote: other.RemoteAddr()},
			rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 8), Remote: passive.at(512 << 10)})
		eventually(t, "the word", func() bool {
			for range 100_000 {
				if byte(word.Load()) == mark {
					return true
				}
			}
			return false
		})
		if heap[size-1] != mark || passive.mem[size-1] != mark {
			t.Fatalf("round %d: the word arrives before the other bytes", round)
		}
		for range 3 {
			next(t, active.icq)
		}
	}
}

// A write is placed directly while messages wait in the ring. While a write waits in the
// ring, a later write stays behind it. Source: [ND QueuePair §Ordering]
func TestWritesOvertakeMessages(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	fill(active.mem)
	active.introduce(t, passive.region)
	region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), make([]byte, 64), rdma.AccessRemoteWrite))
	if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{SGL: passive.sge(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	passive.inside().rxMu.Lock() // no entry is taken out of the ring
	defer passive.inside().rxMu.Unlock()
	own := active.inside().own
	post := func(r rdma.Request) (through uint64) {
		t.Helper()
		before := own.Tail.Load()
		r.Flags |= rdma.FlagSilentSuccess
		active.post(t, r)
		return own.Tail.Load() - before
	}
	if post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 8)}) == 0 {
		t.Fatal("the message is not in the ring")
	}
	if n := post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 100), Remote: passive.at(100)}); n != 0 {
		t.Errorf("behind a message %d bytes go through the ring", n)
	}
	if !bytes.Equal(passive.mem[100:200], active.mem[:100]) {
		t.Error("the write is not in its place")
	}
	if post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 64), Remote: region.RemoteAddr()}) == 0 {
		t.Fatal("the write to memory that is not shared is not in the ring")
	}
	if post(rdma.Request{Op: rdma.OpWrite, SGL: active.sge(0, 8), Remote: passive.at(300)}) == 0 {
		t.Error("a write overtakes another")
	}
}

// A region is closed during a stream of direct writes, and does not change afterwards.
// Source: [ND MemoryRegion.Deregister]
func TestCloseEndsDirectWrites(t *testing.T) {
	for range 10 {
		active, passive := connected(t, nil, 1<<16)
		buf, region := passive.alloc(t, 1<<16)
		active.introduce(t, region)
		at := region.RemoteAddr()
		stream := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				active.mem[0]++
				_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpWrite, SGL: active.sge(0, 1<<16), Remote: at}})
				if err != nil && !errors.Is(err, rdma.StatusNoMoreEntries) {
					stream <- err
					return
				}
				var res [8]rdma.Result
				_, _ = active.icq.Poll(res[:])
				if i == 10 {
					close(started)
				}
			}
		}()
		<-started
		region.Close()
		final := bytes.Clone(buf)
		err := <-stream
		if !errors.Is(err, rdma.StatusConnectionInvalid) {
			t.Errorf("writing to a closed region: %v", err)
		}
		if !bytes.Equal(final, buf) {
			t.Fatal("a region that is closed was written")
		}
		if err := ends(t, active.conn); !errors.Is(err, rdma.StatusAccessViolation) {
			t.Errorf("the initiator's side ended with %v", err)
		}
	}
}

// A peer that stops in the middle of a write loses the pages. Source: [OP-113]
func TestCloseReplacesPagesOfFrozenPeer(t *testing.T) {
	active, passive := connected(t, &Config{DrainTimeout: 20 * time.Millisecond}, 1<<16)
	mem := must[rdma.Memory](t)(passive.a.Alloc(t.Context(), 1<<16)).Bytes()
	region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), mem[4096+100:3*4096-200], rdma.AccessRemoteWrite))
	beside := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), mem[3*4096:], readable))
	fill(mem)
	want := bytes.Clone(mem)
	want[4096+100], want[3*4096] = 0, 0 // the bytes of introduce
	active.introduce(t, region)
	active.introduce(t, beside)
	thaw := active.freeze(region)
	if err := region.Close(); err != nil {
		t.Error(err)
	}
	thaw()
	if !bytes.Equal(mem, want) {
		t.Error("the memory changed after Close, or was not kept")
	}

	// The peer's mapping shows other memory now. Its writes must not go there, neither
	// through a region on the same pages nor through a region beside it.
	again := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), mem[4096:3*4096], readable))
	for _, r := range []rdma.MemoryRegion{beside, again} {
		for i := range 50 {
			fill(active.mem)
			active.mem[0] = byte(i)
			active.write(t, rdma.Request{SGL: active.sge(0, 100), Remote: r.RemoteAddr()})
			active.deliver(t, passive)
			if !bytes.Equal(r.Bytes()[:100], active.mem[:100]) {
				t.Fatal("a write went to the old pages")
			}
		}
	}
}

// A second peer accesses the memory by copy, and never receives it. Source: design
// decision 11
func TestMemoryIsPassedToOnePeer(t *testing.T) {
	first, passive := connected(t, nil, 4096)
	first.introduce(t, passive.region)
	second := newSide(t, nil, 4096)
	again := *passive
	again.conn = must[rdma.Connector](t)(passive.a.CreateConnector())
	again.qp = must[rdma.QueuePair](t)(passive.a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: passive.rcq, InitiatorCQ: passive.icq, ReceiveDepth: 8, InitiatorDepth: 8,
	}))
	l, addr := again.listen(t)
	accepted := make(chan error, 1)
	go func() { accepted <- again.serve(context.Background(), l) }()
	second.dial(t, addr)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), passive.mem, rdma.AccessRemoteWrite))
	for i := range 5 {
		second.mem[0] = byte(i + 1)
		second.write(t, rdma.Request{SGL: second.sge(0, 1), Remote: region.RemoteAddr()})
		second.deliver(t, &again)
		if passive.mem[0] != byte(i+1) {
			t.Error("the copied write did not arrive")
		}
	}
	second.deliver(t, &again)
	exports := &again.inside().exports
	exports.mu.Lock()
	if n := len(exports.memories); n != 0 {
		t.Errorf("the second peer was given %d memories", n)
	}
	exports.mu.Unlock()
	first.conn.Close()
	if err := ends(t, passive.conn); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an orderly end: %v", err)
	}
}

// The peer unmaps a memory that is closed.
func TestCloseOfMemoryUnmapsItAtPeer(t *testing.T) {
	active, passive := connected(t, nil, 4096)
	m := must[rdma.Memory](t)(passive.a.Alloc(t.Context(), 4096))
	region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), m.Bytes(), rdma.AccessRemoteWrite))
	active.introduce(t, region)
	region.Close()
	m.Close()
	targets := &active.inside().mappings
	eventually(t, "the peer unmaps", func() bool {
		targets.mu.Lock()
		defer targets.mu.Unlock()
		return len(targets.memories) == 0 && targets.bytes.Load() == 0
	})
	active.deliver(t, passive)
}

// Memory beyond the limit is accessed through the ring.
func TestMemoryBeyondPeerLimitUsesRing(t *testing.T) {
	active, passive := connected(t, &Config{MaxPeerMemory: 4096}, 8192)
	fill(active.mem)
	for range 3 {
		active.write(t, rdma.Request{SGL: active.sge(0, 8192), Remote: passive.at(0)})
		active.deliver(t, passive)
	}
	_, small := passive.alloc(t, 4096)
	active.introduce(t, small) // announced after the memory that does not fit
	if !bytes.Equal(active.mem, passive.mem) {
		t.Error("the memory differs")
	}
	if active.inside().mappings.knows(uint32(passive.at(0).Token)) {
		t.Error("memory beyond the limit is mapped")
	}
}

// Memory beyond the limit of all connections is accessed through the ring, until other
// memory is unmapped.
func TestMemoryBeyondTotalLimitUsesRing(t *testing.T) {
	p := New(patient(&Config{MaxMappedMemory: 12 << 10}))
	first, passive := connectedOn(t, p, 8192)
	first.introduce(t, passive.region)
	if n := p.mapped.now.Load(); n != 8192 {
		t.Errorf("%d bytes are mapped", n)
	}
	second, other := connectedOn(t, p, 8192)
	fill(second.mem)
	for range 3 {
		second.write(t, rdma.Request{SGL: second.sge(0, 8192), Remote: other.at(0)})
		second.deliver(t, other)
	}
	if !bytes.Equal(second.mem, other.mem) {
		t.Error("the memory differs")
	}
	_, small := other.alloc(t, 4096)
	second.introduce(t, small) // announced after the memory that does not fit, and fits
	if n := p.mapped.now.Load(); n != 8192+4096 || second.inside().mappings.knows(uint32(other.at(0).Token)) {
		t.Errorf("%d bytes are mapped", n)
	}
	first.conn.Close()
	passive.conn.Close()
	eventually(t, "the first is unmapped", func() bool { return p.mapped.now.Load() == 4096 })
	third, last := connectedOn(t, p, 8192)
	third.introduce(t, last.region)
}

// Messages that a peer sent before it disconnected arrive, even if the receiving
// goroutine has stopped polling. Source: [ND Connector.Disconnect]
func TestLastMessagesArriveAfterPolling(t *testing.T) {
	for range 20 {
		active, passive := connected(t, nil, 4096)
		if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{ID: 1}, {ID: 2}}); err != nil {
			t.Fatal(err)
		}
		var res [1]rdma.Result
		for range 2 * softrdma.HotPolls {
			if n, err := passive.rcq.Poll(res[:]); n != 0 || err != nil {
				t.Fatal(n, err)
			}
		}
		active.post(t, rdma.Request{Op: rdma.OpSend}, rdma.Request{Op: rdma.OpSend})
		active.conn.Close()
		if err := ends(t, passive.conn); !errors.Is(err, net.ErrClosed) {
			t.Errorf("an orderly end: %v", err)
		}
		for id := uint64(1); id <= 2; id++ {
			if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess || res.ID != id {
				t.Fatalf("a message from before the end: %+v", res)
			}
		}
	}
}

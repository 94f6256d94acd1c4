//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"lwio/rdma"
)

// FuzzRing gives a receiver a ring of any content: it takes no memory that is not
// its own, does not panic, and comes to an end. Source: design decision 11
func FuzzRing(f *testing.F) {
	a := newAdapter(New(nil), [16]byte{}, 1)
	buf := make([]byte, 4096)
	region, err := a.RegisterMemory(f.Context(), buf[1024:2048], rdma.AccessRemoteWrite)
	if err != nil {
		f.Fatal(err)
	}
	cq, err := a.CreateCompletionQueue(1 << 16)
	if err != nil {
		f.Fatal(err)
	}
	at := region.RemoteAddr()
	for _, es := range [][]entry{
		{{kind: entryWrite, length: 8, total: 8, token: uint32(at.Token), addr: at.Addr}},
		{{kind: entryWrite, length: 8, total: 1024, token: uint32(at.Token), addr: at.Addr + 1}},
		{{kind: entrySend, flags: entryFirst, length: 8, total: 16}, {kind: entrySend, length: 8, total: 8}},
		{{kind: entrySend, flags: entryFirst | entrySolicited}, {kind: 77}},
		{{kind: entryBrief, flags: entryFirst, length: 48}, {kind: entryBrief, flags: entryFirst, length: 16}},
		{{kind: entrySend, flags: entryFirst, length: 8, total: 16}, {kind: entryBrief, length: 8}},
		{{kind: entrySend, flags: entryFirst}, {kind: entrySkip, length: minRing - 2*headerSize, total: minRing - 2*headerSize}},
		{{kind: entrySkip, length: minRing - headerSize, total: minRing - headerSize}, {kind: entrySend, flags: entryFirst}},
		{{kind: entryLend, flags: entryFirst, length: 8, total: 16, token: uint32(at.Token), addr: at.Addr}},
	} {
		var seed []byte
		for _, e := range es {
			at := len(seed)
			seed = append(seed, make([]byte, e.size())...)
			e.store(seed, at)
		}
		f.Add(uint64(len(seed)), uint64(0), seed)
		f.Add(uint64(minRing+headerSize), uint64(headerSize), seed)
	}
	f.Fuzz(func(t *testing.T, tail, head uint64, ring []byte) {
		c := fuzzConn(a, cq, ring, tail, head&^(headerSize-1))
		defer c.qp.Close()
		for range 4 {
			req := rdma.ReceiveRequest{SGL: []rdma.SGE{{Region: region, Offset: 100, Length: 200}, {Region: region, Offset: 0, Length: 50}}}
			if _, err := c.qp.PostReceive([]rdma.ReceiveRequest{req}); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.rx.drain(-1)
		var res [64]rdma.Result
		for n := 1; n > 0; {
			n, _ = cq.Poll(res[:])
		}
		if !bytes.Equal(buf[:1024], make([]byte, 1024)) || !bytes.Equal(buf[2048:], make([]byte, 2048)) {
			t.Fatal("memory beside the region was written")
		}
	})
}

// fuzzConn is a connection of which only the receiving half is there, with a peer
// whose segment is ordinary memory.
func fuzzConn(a *adapter, cq rdma.CompletionQueue, ring []byte, tail, head uint64) *conn {
	// Words make it aligned.
	words := make([]uint64, 2*(segmentSize+minRing)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	peer := newSegment(mem[:segmentSize], mem[segmentSize:][:minRing])
	mem = mem[segmentSize+minRing:]
	own := newSegment(mem[:segmentSize], mem[segmentSize:])
	copy(peer.ring, ring)
	peer.tail.Store(tail)
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 8, MaxReceiveSGE: 2})
	if err != nil {
		panic(err)
	}
	c := &conn{a: a, qp: qp.(*queuePair), own: own, peer: peer}
	c.rx.init(c)
	c.rx.in.head, c.rx.in.tail = head, head
	return c
}

// FuzzHello: what is read is what would be written. Source: [RFC 5042 §6.4]
func FuzzHello(f *testing.F) {
	for _, h := range []hello{
		{kind: helloRequest, private: []byte("hello")}, {kind: helloAccept, ring: minRing},
		{kind: helloReject}, {kind: helloForbidden}, {kind: helloReady, ring: maxRing, limits: rdma.ReadLimits{Inbound: 1, Outbound: 1 << 16}},
	} {
		f.Add(h.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err == nil && !bytes.Equal(h.appendTo(nil), b) {
			t.Fatalf("%x is read as %+v", b, h)
		}
	})
}

// FuzzNotice: likewise.
func FuzzNotice(f *testing.F) {
	for _, n := range []notice{
		{kind: noticeWake}, {kind: noticeUnshare, memory: 5},
		{kind: noticeShare, memory: 7, slot: 255, token: 9, size: 4096},
	} {
		f.Add(n.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNotice(b)
		if err == nil && !bytes.Equal(n.appendTo(nil), b) {
			t.Fatalf("%x is read as %+v", b, n)
		}
	})
}

// TestPrefixes: no prefix of a message is one, nor is one with a byte more.
func TestPrefixes(t *testing.T) {
	h := hello{kind: helloReady, ring: minRing, private: []byte("private")}
	whole := h.appendTo(nil)
	for n := range whole {
		if _, err := decodeHello(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(whole))
		}
	}
	if _, err := decodeHello(append(whole, 0)); err == nil {
		t.Error("a byte too many is read")
	}
	n := notice{kind: noticeShare, memory: 1, size: 1}
	whole = n.appendTo(nil)
	for n := range whole {
		if n == 1 {
			whole[0] = noticeShare
		}
		if _, err := decodeNotice(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(whole))
		}
	}
}

// TestGolden fixes the bytes of the start-up.
func TestGolden(t *testing.T) {
	h := hello{kind: helloReady, ring: 0x40000, limits: rdma.ReadLimits{Inbound: 3, Outbound: 5}, private: []byte("ab")}
	want := append([]byte("LWIOshm\x06"), 4, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b')
	if got := h.appendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	n := notice{kind: noticeShare, memory: 1, slot: 2, token: 3, size: 4}
	want = binary.LittleEndian.AppendUint64([]byte{2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}, 4)
	if got := n.appendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestGoldenEntry fixes the bytes of headers in a ring, in the order of little-endian hosts.
func TestGoldenEntry(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("a ring has the byte order of its host")
	}
	full := make([]byte, headerSize)
	for i := range full {
		full[i] = 0xEE
	}
	for _, x := range []struct {
		e    entry
		want []byte
	}{
		{entry{kind: entryBrief, flags: entryFirst | entrySolicited, length: 48, total: 48}, []byte{7, 5, 0, 0, 48, 0, 0, 0}},
		{
			entry{kind: entryWrite, flags: entryImmediate, length: 2, total: 3, immediate: 4, addr: 5, token: 6},
			[]byte{2, 8, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0},
		},
	} {
		words := make([]uint64, headerSize/8) // makes it aligned
		ring := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), headerSize)
		copy(ring, full)
		x.e.store(ring, 0)
		if n := x.e.header(); n != len(x.want) || !bytes.Equal(ring[:n], x.want) || !bytes.Equal(ring[n:], full[n:]) {
			t.Errorf("%x, want %x", ring, x.want)
		}
		var got entry
		if got.load(ring, 0); got != x.e {
			t.Errorf("read as %+v, not %+v", got, x.e)
		}
	}
}

//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// FuzzRing gives a receiver a ring of arbitrary content. The receiver accesses no memory
// outside the region, does not panic, and ends. Source: design decision 11
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
	for _, es := range [][]ring.Entry{
		{{Kind: ring.Write, Length: 8, Total: 8, Token: uint32(at.Token), Addr: at.Addr}},
		{{Kind: ring.Write, Length: 8, Total: 1024, Token: uint32(at.Token), Addr: at.Addr + 1}},
		{{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, {Kind: ring.Send, Length: 8, Total: 8}},
		{{Kind: ring.Send, Flags: ring.FlagFirst | ring.FlagSolicited}, {Kind: 77}},
		{{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: 48}, {Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: 16}},
		{{Kind: ring.Send, Flags: ring.FlagFirst, Length: 8, Total: 16}, {Kind: ring.CompactSend, Length: 8}},
		{{Kind: ring.Send, Flags: ring.FlagFirst}, {Kind: ring.Skip, Length: ring.MinSize - 2*ring.HeaderSize, Total: ring.MinSize - 2*ring.HeaderSize}},
		{{Kind: ring.Skip, Length: ring.MinSize - ring.HeaderSize, Total: ring.MinSize - ring.HeaderSize}, {Kind: ring.Send, Flags: ring.FlagFirst}},
		{{Kind: ring.SendByReference, Flags: ring.FlagFirst, Length: 8, Total: 16, Token: uint32(at.Token), Addr: at.Addr}},
	} {
		var seed []byte
		for _, e := range es {
			at := len(seed)
			seed = append(seed, make([]byte, e.Size())...)
			e.Store(seed, at)
		}
		f.Add(uint64(len(seed)), uint64(0), seed)
		f.Add(uint64(ring.MinSize+ring.HeaderSize), uint64(ring.HeaderSize), seed)
	}
	own, peer := fuzzSegment(f), fuzzSegment(f)
	f.Fuzz(func(t *testing.T, tail, head uint64, content []byte) {
		clear(peer.Ring[copy(peer.Ring, content):])
		peer.Tail.Store(tail)
		c := fuzzConn(t, a, cq, own, peer, head&^(ring.HeaderSize-1))
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

// fuzzSegment is a segment that all runs of a process share.
func fuzzSegment(f *testing.F) *ring.Segment {
	fds, s, err := ring.NewSegment(ring.MinSize)
	if err != nil {
		f.Fatal(err)
	}
	fds.Close()
	f.Cleanup(s.Unmap)
	return s
}

// fuzzConn is a connection with a receiver only.
func fuzzConn(tb testing.TB, a *adapter, cq rdma.CompletionQueue, own, peer *ring.Segment, head uint64) *conn {
	qp := must[rdma.QueuePair](tb)(a.CreateQueuePair(rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 8, MaxReceiveSGE: 2}))
	c := &conn{a: a, qp: qp.(*queuePair), own: own, peer: peer}
	c.init(nil)
	c.rx.in = ring.NewConsumer(peer, head)
	return c
}

// FuzzHello: the decoded message encodes to the same bytes. Source: [RFC 5042 §6.4]
func FuzzHello(f *testing.F) {
	for _, h := range []hello{
		{kind: helloRequest, private: []byte("hello")}, {kind: helloAccept, ring: ring.MinSize},
		{kind: helloReject}, {kind: helloForbidden}, {kind: helloReady, ring: ring.MaxSize, limits: rdma.ReadLimits{Inbound: 1, Outbound: 1 << 16}},
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

// FuzzNotice checks that the decoded message encodes to the same bytes.
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

// A prefix of a message is refused, and so is a message with a byte more.
func TestPrefixesAreRefused(t *testing.T) {
	h := hello{kind: helloReady, ring: ring.MinSize, private: []byte("private")}
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

// The bytes of the start-up are fixed.
func TestGoldenMessages(t *testing.T) {
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

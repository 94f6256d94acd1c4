package iwarp

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"lwio/rdma"
)

// Source: [RFC 5044 §7.1]
func FuzzStartup(f *testing.F) {
	for _, c := range capturedFrames(f) {
		if bytes.HasPrefix(c.wire, []byte("MPA")) {
			f.Add(c.wire, true)
			f.Add(c.wire, false)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		s, err := decodeStartup(b, reply)
		if err != nil {
			return
		}
		again := s.appendTo(nil)
		b[16] &= mpaMarkers | mpaCRC | mpaReject | mpaEnhanced
		if s.revision < 2 {
			b[16] &^= mpaEnhanced
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x made again as %x", b, again)
		}
	})
}

// Source: [RFC 5044 §4], [RFC 5041 §4], [RFC 5040 §4]
func FuzzFPDU(f *testing.F) {
	for i, c := range capturedFrames(f) {
		if i%8 == 0 && len(c.wire) < 4096 {
			f.Add(c.wire, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, crc bool) {
		ulpdu, rest, err := decodeFPDU(b, crc)
		if err != nil {
			return
		}
		if len(ulpdu)+len(rest) > len(b) {
			t.Fatal("more out than in")
		}
		s, err := decodeSegment(ulpdu)
		if err != nil {
			return
		}
		payload := ulpdu[s.size():]
		if again := append(s.appendTo(nil), payload...); !bytes.Equal(again, ulpdu) {
			t.Errorf("%x made again as %x", ulpdu, again)
		}
		if r, err := decodeReadRequest(payload); err == nil && !bytes.Equal(r.appendTo(nil), payload) {
			t.Error("read request differs")
		}
		if r, err := decodeAtomicRequest(payload); err == nil {
			payload[0], payload[1], payload[2] = 0, 0, 0
			if payload[3] &= 0x0F; !bytes.Equal(r.appendTo(nil), payload) {
				t.Error("atomic request differs")
			}
		}
		if r, err := decodeAtomicResponse(payload); err == nil && !bytes.Equal(r.appendTo(nil), payload) {
			t.Error("atomic response differs")
		}
		if term, err := decodeTerminate(payload); err == nil {
			_ = term.fault.String()
			if back, err := decodeTerminate(term.appendTo(nil)); err != nil || back.control != term.control {
				t.Errorf("%+v became %+v: %v", term, back, err)
			}
		}
	})
}

// FuzzReader feeds a connection in full operation with anything: whatever that
// is, all receives end, nothing outside the region is touched, and all is over
// when the stream is.
//
// Source: [RFC 5042 §6], [RFC 5041 §7]
func FuzzReader(f *testing.F) {
	memory := make([]byte, 64<<10) // on a page of its own
	model := newFuzzTarget(f, memory)
	token, base, lent := uint32(model.at.Token), model.at.Addr, uint32(model.lent.Token)
	model.a.Close()
	write := taggedSegment(opWrite, token, base+8, true)
	send := untaggedSegment(opSend, queueSend, 1, 0, true)
	frame := func(s segment, n int, crc bool) []byte {
		return appendFPDU(nil, append(s.appendTo(nil), make([]byte, n)...), crc)
	}
	for _, c := range terminateCases {
		e := &side{mr: model.mr, buf: make([]byte, 64)}
		for _, crc := range []bool{false, true} {
			f.Add(append(frame(write, 8, crc), c.frame(e, &rawPeer{crc: crc})...), crc, crc)
		}
	}
	f.Add(append(frame(write, 20000, false), frame(send, 64, false)...), false, true)
	f.Add(append(frame(send, 40, true), frame(send, 64, true)...), true, true)
	for _, crc := range []bool{false, true} {
		for _, c := range readTerminates {
			s, r := readSegment(1), readRequest{1, 2, 8, token, base + 8}
			c.change(&s, &r)
			frames := appendFPDU(nil, append(s.appendTo(nil), r.appendTo(nil)...), crc)
			f.Add(append(frames, frame(send, 8, crc)...), crc, !crc)
		}
		for _, c := range atomicTerminates {
			s, r := atomicSegment(1), atomicRequest{id: 1, stag: token, to: base + 8}
			c.change(&s, &r)
			frames := appendFPDU(nil, append(s.appendTo(nil), r.appendTo(nil)...), crc)
			f.Add(append(frames, frame(send, 8, crc)...), crc, !crc)
		}
		f.Add(frame(untaggedSegment(opAtomicResponse, queueAtomicResponse, 1, 0, true), atomicResponseSize, crc), crc, true)
		r := readRequest{1, 2, 20000, token, base + 8}
		s := readSegment(1)
		f.Add(appendFPDU(nil, append(s.appendTo(nil), r.appendTo(nil)...), crc), crc, true)
		f.Add(frame(untaggedSegment(opImmediateEvent, queueSend, 1, 0, true), 8, crc), crc, true)
		inval := untaggedSegment(opSendInvalidate, queueSend, 1, 0, true)
		inval.stag = lent
		f.Add(append(frame(taggedSegment(opWrite, lent, base+8, true), 8, crc), frame(inval, 9, crc)...), crc, true)
		f.Add(frame(taggedSegment(opReadResponse, token, base, true), 8, crc), crc, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, crc, tcp bool) {
		ours, theirs := net.Pipe()
		if tcp {
			ours, theirs = fuzzTCP(t)
		}
		target := newFuzzTarget(t, memory)
		a, qp, cq := target.a, target.qp, target.cq
		defer a.Close()
		if err := qp.Reserve("fuzz"); err != nil {
			t.Fatal(err)
		}
		c := newConn(a, qp, ours, crc, rdma.ReadLimits{Inbound: 2, Outbound: 2}, func(error) {})
		qp.attach(c)
		qp.connect(true)
		go c.run()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		_, _ = theirs.Write(b)
		if half, ok := theirs.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			<-c.finished
		}
		theirs.Close()
		<-c.finished
		<-drained
		if n, err := cq.Poll(make([]rdma.Result, 16)); n != 4 || err != nil {
			t.Errorf("%d results, %v", n, err)
		}
		for _, outside := range [][]byte{memory[:1024], memory[32<<10:]} {
			if bytes.ContainsFunc(outside, func(r rune) bool { return r != 0 }) {
				t.Fatal("memory outside the region was touched")
			}
		}
	})
}

// fuzzTarget is a queue pair with four receives in a region, and a window on that.
// All of these have the same tokens and addresses, one like the other.
type fuzzTarget struct {
	a        *adapter
	cq       rdma.CompletionQueue
	qp       *queuePair
	mr       rdma.MemoryRegion
	at, lent rdma.RemoteAddr
}

func newFuzzTarget(t testing.TB, memory []byte) fuzzTarget {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := newAdapter(New(&Config{DrainTimeout: time.Second}), loopback, 1)
	a.Domain.Keys.Seed([32]byte{1})
	cq, err := a.CreateCompletionQueue(16)
	must(err)
	pair, err := a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 4, MaxReceiveSGE: 2,
	})
	must(err)
	qp := pair.(*queuePair)
	r, err := a.RegisterMemory(context.Background(), memory[1024:32<<10], rdma.AccessRemoteWrite|rdma.AccessRemoteRead)
	must(err)
	for range 4 {
		_, err := qp.PostReceive([]rdma.ReceiveRequest{{SGL: []rdma.SGE{{Region: r, Length: 30}, {Region: r, Offset: 64, Length: 20000}}}})
		must(err)
	}
	w, err := a.CreateMemoryWindow()
	must(err)
	req := rdma.Request{Op: rdma.OpBind, Flags: rdma.FlagAllowRead | rdma.FlagAllowWrite, Window: w, Region: r, Length: 100}
	qp.Initiator.Lock()
	qp.Initiator.Windows.AdoptLocked(&req)
	_, status := qp.Initiator.Windows.PostLocked(&req, true)
	qp.Initiator.Unlock()
	if status != rdma.StatusSuccess {
		t.Fatal(status)
	}
	return fuzzTarget{a, cq, qp, r, r.RemoteAddr(), w.RemoteAddr()}
}

// fuzzTCP is a TCP connection whose both ends are here.
func fuzzTCP(t *testing.T) (ours, theirs net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

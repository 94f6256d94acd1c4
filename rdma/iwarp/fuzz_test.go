package iwarp

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// FuzzReader feeds arbitrary bytes to a connection in full operation. All receives end,
// no memory outside the region changes, and the connection ends with the stream.
//
// Source: [RFC 5042 §6], [RFC 5041 §7]
func FuzzReader(f *testing.F) {
	memory := make([]byte, 64<<10) // on separate pages
	model := newFuzzTarget(f, memory)
	token, base, windowAt := uint32(model.at.Token), model.at.Addr, uint32(model.windowAt.Token)
	model.a.Close()
	write := frame.TaggedSegment(frame.OpWrite, token, base+8, true)
	send := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true)
	makeFrame := func(s frame.Segment, n int, crc bool) []byte {
		return frame.AppendFPDU(nil, append(s.AppendTo(nil), make([]byte, n)...), crc)
	}
	for _, c := range terminateCases {
		e := &side{mr: model.mr, buf: make([]byte, 64)}
		for _, crc := range []bool{false, true} {
			f.Add(append(makeFrame(write, 8, crc), c.frame(e, &rawPeer{crc: crc})...), crc, crc)
		}
	}
	f.Add(append(makeFrame(write, 20000, false), makeFrame(send, 64, false)...), false, true)
	f.Add(append(makeFrame(send, 40, true), makeFrame(send, 64, true)...), true, true)
	for _, crc := range []bool{false, true} {
		for _, c := range readTerminates {
			s, r := readSegment(1), frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: token, SourceTO: base + 8}
			c.change(&s, &r)
			frames := frame.AppendFPDU(nil, append(s.AppendTo(nil), r.AppendTo(nil)...), crc)
			f.Add(append(frames, makeFrame(send, 8, crc)...), crc, !crc)
		}
		for _, c := range atomicTerminates {
			s, r := atomicSegment(1), frame.AtomicRequest{ID: 1, STag: token, TO: base + 8}
			c.change(&s, &r)
			frames := frame.AppendFPDU(nil, append(s.AppendTo(nil), r.AppendTo(nil)...), crc)
			f.Add(append(frames, makeFrame(send, 8, crc)...), crc, !crc)
		}
		f.Add(makeFrame(frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, 1, 0, true), frame.AtomicResponseSize, crc), crc, true)
		r := frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 20000, SourceSTag: token, SourceTO: base + 8}
		s := readSegment(1)
		f.Add(frame.AppendFPDU(nil, append(s.AppendTo(nil), r.AppendTo(nil)...), crc), crc, true)
		f.Add(makeFrame(frame.UntaggedSegment(frame.OpImmediateEvent, frame.QueueSend, 1, 0, true), 8, crc), crc, true)
		inval := frame.UntaggedSegment(frame.OpSendInvalidate, frame.QueueSend, 1, 0, true)
		inval.STag = windowAt
		f.Add(append(makeFrame(frame.TaggedSegment(frame.OpWrite, windowAt, base+8, true), 8, crc), makeFrame(inval, 9, crc)...), crc, true)
		f.Add(makeFrame(frame.TaggedSegment(frame.OpReadResponse, token, base, true), 8, crc), crc, true)
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

// fuzzTarget is a queue pair with four receives in a region, and a window on the region.
// All fuzz targets have the same tokens and addresses.
type fuzzTarget struct {
	a            *adapter
	cq           rdma.CompletionQueue
	qp           *queuePair
	mr           rdma.MemoryRegion
	at, windowAt rdma.RemoteAddr
}

func newFuzzTarget(t testing.TB, memory []byte) fuzzTarget {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := newAdapter(New(&Config{DrainTimeout: time.Second}), loopback, 1)
	a.Domain.Keys.Generator = rand.NewChaCha8([32]byte{1})
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

// fuzzTCP returns both ends of a TCP connection.
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

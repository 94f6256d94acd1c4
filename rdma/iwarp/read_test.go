package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// connectReads connects a raw peer to a side that answers and begins two reads at a time,
// with a ready-to-receive message of the given kind.
func connectReads(t testing.TB, crc CRCPolicy, kind readyKind) (*side, *rawPeer) {
	t.Helper()
	server, l, addr := listenSide(t, &Config{CRC: crc}, shape{depth: 8, sge: 2, buf: 256 << 10, context: 7})
	mr, err := server.a.RegisterMemory(t.Context(), server.buf, rdma.AccessRemoteRead|rdma.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	server.mr = mr
	p := dialRaw(t, addr)
	accepted := make(chan error, 1)
	go func() {
		err := l.ConnectionRequest(t.Context(), server.con)
		if err == nil {
			err = server.con.Accept(t.Context(), server.qp, rdma.ReadLimits{Inbound: 2, Outbound: 2}, nil)
		}
		accepted <- err
	}()
	e := &frame.Enhanced{PeerToPeer: true, RTRWrite: kind == readyWrite, RTRRead: kind == readyRead, Inbound: 9, Outbound: 9}
	p.send((&frame.Startup{Revision: 2, Enhanced: e}).AppendTo(nil))
	reply, err := readStartup(p.nc, true)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Enhanced.Inbound != 2 || reply.Enhanced.Outbound != 2 || reply.Enhanced.RTRRead != (kind == readyRead) {
		t.Fatalf("reply %+v", reply.Enhanced)
	}
	p.crc = reply.CRC
	if kind == readyRead {
		p.fpdu(readSegment(1), (&frame.ReadRequest{SinkSTag: 5, SinkTO: 6}).AppendTo(nil))
		s, b, err := p.receive()
		if want := frame.TaggedSegment(frame.OpReadResponse, 5, 6, true); s != want || len(b) != 0 || err != nil {
			t.Fatal("answer to the ready-to-receive message:", s, b, err)
		}
	} else {
		p.fpdu(frame.TaggedSegment(frame.OpWrite, 0, 0, true), nil)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return server, p
}

func readSegment(msn uint32) frame.Segment {
	return frame.UntaggedSegment(frame.OpReadRequest, frame.QueueRequest, msn, 0, true)
}

// The ready-to-receive message may be a zero-length Read, which counts as a message.
//
// Source: [RFC 6581 §9.2]
func TestReadyMessageMayBeARead(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyRead)
	fillRandom(e.buf, 1)
	p.fpdu(readSegment(2), (&frame.ReadRequest{SinkSTag: 1, SinkTO: 100, Size: 5, SourceSTag: uint32(e.at(0).Token), SourceTO: e.at(3).Addr}).AppendTo(nil))
	s, b, err := p.receive()
	if s != frame.TaggedSegment(frame.OpReadResponse, 1, 100, true) || !bytes.Equal(b, e.buf[3:8]) || err != nil {
		t.Error(s, b, err)
	}
}

// readTerminates are reads that a peer must not request, with their Terminates. A
// Terminate carries the header of the segment, and the header of the read if the layout
// says so.
var readTerminates = []struct {
	name   string
	change func(s *frame.Segment, r *frame.ReadRequest)
	size   int
	want   []byte
}{
	{"token", func(_ *frame.Segment, r *frame.ReadRequest) { r.SourceSTag ^= 2 }, 28, []byte{0x01, 0, 0xE0, 0}},
	{"one byte too far", func(_ *frame.Segment, r *frame.ReadRequest) { r.SourceTO += 256<<10 - 7 }, 28, []byte{0x01, 1, 0xE0, 0}},
	{"one byte too early", func(_ *frame.Segment, r *frame.ReadRequest) { r.SourceTO-- }, 28, []byte{0x01, 1, 0xE0, 0}},
	{"all of it", func(_ *frame.Segment, r *frame.ReadRequest) { r.Size = 1<<32 - 1 }, 28, []byte{0x01, 1, 0xE0, 0}},
	{"wraps", func(_ *frame.Segment, r *frame.ReadRequest) { r.SourceTO = 1<<64 - 8 }, 28, []byte{0x01, 4, 0xE0, 0}},
	{"queue", func(s *frame.Segment, _ *frame.ReadRequest) { s.QN = 0 }, 28, []byte{0x12, 1, 0xC0, 0}},
	{"sequence", func(s *frame.Segment, _ *frame.ReadRequest) { s.MSN = 2 }, 28, []byte{0x12, 3, 0xC0, 0}},
	{"offset", func(s *frame.Segment, _ *frame.ReadRequest) { s.MO = 4 }, 28, []byte{0x12, 4, 0xC0, 0}},
	{"too long", func(*frame.Segment, *frame.ReadRequest) {}, 29, []byte{0x12, 5, 0xC0, 0}},
	{"too short", func(*frame.Segment, *frame.ReadRequest) {}, 27, []byte{0x02, 0xFF, 0xC0, 0}},
	{"not the last", func(s *frame.Segment, _ *frame.ReadRequest) { s.DDP &^= frame.DDPLast }, 28, []byte{0x02, 0xFF, 0xC0, 0}},
}

// Source: [RFC 5040 §4.8], [RFC 5040 §5.2], [RFC 5042 §6.3]
func TestInvalidReadEndsWithTerminate(t *testing.T) {
	for _, c := range readTerminates {
		for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
			e, p := connectReads(t, crc, readyWrite)
			e.recv(1, 0, 1)
			s, r := readSegment(1), frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: uint32(e.at(0).Token), SourceTO: e.at(0).Addr}
			c.change(&s, &r)
			payload := append(r.AppendTo(nil), 0)[:c.size]
			p.fpdu(s, payload)
			want := binary.BigEndian.AppendUint16(bytes.Clone(c.want), uint16(18+c.size))
			want = s.AppendTo(want)
			if c.want[2] == 0xE0 {
				want = append(want, payload...)
			}
			if got := p.wantTerminate(); !bytes.Equal(got, want) {
				t.Errorf("%s: Terminate %x, want %x", c.name, got, want)
			}
			e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
		}
	}
}

// A region with only the right of remote write cannot be read.
//
// Source: [RFC 5042 §6.3.5]
func TestReadWithoutRightIsRefused(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	mr, err := e.a.RegisterMemory(t.Context(), e.buf, rdma.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	p.fpdu(readSegment(1), (&frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: uint32(mr.RemoteAddr().Token), SourceTO: mr.RemoteAddr().Addr}).AppendTo(nil))
	if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x01, 2, 0xE0, 0}) {
		t.Errorf("Terminate %x", got)
	}
}

// One read above the limit ends the connection.
//
// Source: [RFC 6581 §9.1], [RFC 5042 §6.4.3.3]
func TestTooManyReadsEndTheConnection(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	e.recv(1, 0, 1)
	var frames []byte
	for msn := range uint32(3) {
		frames = append(frames, p.frame(readSegment(msn+1), (&frame.ReadRequest{}).AppendTo(nil))...)
	}
	p.send(frames)
	want := readSegment(3)
	for {
		s, b, err := p.receive()
		if err != nil {
			t.Fatal(err)
		}
		if s.Opcode() != frame.OpTerminate {
			continue
		}
		if !bytes.Equal(b, append([]byte{0x02, 7, 0xC0, 0, 0, 46}, want.AppendTo(nil)...)) {
			t.Errorf("Terminate %x", b)
		}
		break
	}
	p.wantEnd()
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
}

// responseTerminates are wrong answers to a read of 100 bytes.
var responseTerminates = []struct {
	name   string
	answer func(p *rawPeer, r frame.ReadRequest) []byte
	want   []byte
}{
	{"token", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag+1, r.SinkTO, true), make([]byte, 100))
	}, []byte{0x11, 0, 0xC0, 0}},
	{"address", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO+1, true), make([]byte, 100))
	}, []byte{0x11, 1, 0xC0, 0}},
	{"too long", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO, true), make([]byte, 101))
	}, []byte{0x11, 1, 0xC0, 0}},
	{"too short", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO, true), make([]byte, 99))
	}, []byte{0x02, 0xFF, 0xC0, 0}},
	{"no end", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO, false), make([]byte, 100))
	}, []byte{0x02, 0xFF, 0xC0, 0}},
	{"write to the sink", func(p *rawPeer, r frame.ReadRequest) []byte {
		return p.frame(frame.TaggedSegment(frame.OpWrite, r.SinkSTag, r.SinkTO, true), make([]byte, 100))
	}, []byte{0x11, 0, 0xC0, 0}},
}

// A sink accepts one answer in the order of its bytes, and no other data.
//
// Source: [RFC 5040 §4.4], [RFC 5042 §6.3]
func TestWrongReadResponseIsRefused(t *testing.T) {
	for _, c := range responseTerminates {
		e, p := connectReads(t, CRCOn, readyWrite)
		e.post(rdma.Request{Op: rdma.OpRead, ID: 9, SGL: e.sgl(0, 100), Remote: rdma.RemoteAddr{Addr: 77, Token: 88}})
		s, b, err := p.receive()
		r, _ := frame.DecodeReadRequest(b)
		if s != readSegment(1) || err != nil || r.Size != 100 || r.SourceSTag != 88 || r.SourceTO != 77 {
			t.Fatalf("%+v %+v %v", s, r, err)
		}
		p.send(c.answer(p, r))
		if got := p.wantTerminate(); !bytes.Equal(got[:4], c.want) {
			t.Errorf("%s: Terminate %x, want %x", c.name, got, c.want)
		}
		e.want(rdma.OpRead, 9, rdma.StatusCanceled)
	}
}

// Valid answers in parts, between other frames, are placed. A second answer to the same
// read is refused.
//
// Source: [RFC 5040 §4.4], [RFC 5041 §5]
func TestReadAnswersArriveInParts(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	e.recv(1, 4096, 100)
	e.post(rdma.Request{Op: rdma.OpRead, ID: 9, SGL: e.sgl(0, 100), Remote: rdma.RemoteAddr{Addr: 77, Token: 88}},
		rdma.Request{Op: rdma.OpSend, ID: 10, Flags: rdma.FlagReadFence})
	_, b, _ := p.receive()
	r, _ := frame.DecodeReadRequest(b)
	data := bytes.Repeat([]byte("x"), 100)
	first := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, false)
	p.fpdu(frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO, false), data[:60])
	p.fpdu(first, []byte("abc"))
	last := frame.TaggedSegment(frame.OpReadResponse, r.SinkSTag, r.SinkTO+60, true)
	p.fpdu(last, data[60:])
	second := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 3, true)
	p.fpdu(second, []byte("def"))
	results := map[rdma.Op]rdma.Result{}
	for range 3 {
		res := e.next()
		results[res.Op] = res
	}
	if results[rdma.OpRead].ID != 9 || results[rdma.OpReceive].Bytes != 6 || results[rdma.OpSend].ID != 10 || !bytes.Equal(e.buf[:101], append(data, 0)) || string(e.buf[4096:4102]) != "abcdef" {
		t.Errorf("%+v", results)
	}
	if s, _, err := p.receive(); s.Opcode() != frame.OpSend || err != nil {
		t.Error("the fenced send:", s, err)
	}
	p.fpdu(last, data[60:])
	if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x02, 6, 0xC0, 0}) {
		t.Errorf("Terminate %x", got)
	}
}

// At most as many reads are sent as the peer accepts.
//
// Source: [RFC 6581 §9.1], [RFC 5040 §5.2]
func TestReadsStayWithinOutboundLimit(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	for i := range 4 {
		e.post(rdma.Request{Op: rdma.OpRead, ID: uint64(i), SGL: e.sgl(0, 1)})
	}
	e.post(rdma.Request{Op: rdma.OpSend, ID: 4})
	var open []frame.ReadRequest
	for i := range 4 {
		if i < 2 {
			_, b, err := p.receive()
			r, _ := frame.DecodeReadRequest(b)
			if open = append(open, r); err != nil {
				t.Fatal(err)
			}
			continue
		}
		p.fpdu(frame.TaggedSegment(frame.OpReadResponse, open[i-2].SinkSTag, open[i-2].SinkTO, true), []byte{1})
		e.want(rdma.OpRead, uint64(i-2), rdma.StatusSuccess)
		s, b, err := p.receive()
		r, _ := frame.DecodeReadRequest(b)
		if open = append(open, r); err != nil || s != readSegment(uint32(i+1)) {
			t.Fatalf("%+v %v: the send must wait behind the reads", s, err)
		}
	}
	if s, _, err := p.receive(); err != nil || s.Opcode() != frame.OpSend {
		t.Fatal(s, err)
	}
}

// The Terminate for a region that is closed during an answer carries the rest of the
// read.
//
// Source: [RFC 5040 §4.8], [RFC 5042 §6.3.3]
func TestClosedReadSourceEndsWithTerminate(t *testing.T) {
	a := answer{req: frame.ReadRequest{SinkSTag: 1, SinkTO: 100, Size: 50, SourceSTag: 7, SourceTO: 1000}, msn: 3}
	v := a.lost(20)
	want := (&frame.ReadRequest{SinkSTag: 1, SinkTO: 120, Size: 30, SourceSTag: 7, SourceTO: 1020}).AppendTo(nil)
	if !bytes.Equal(v.read, want) || v.fault != frame.FaultReadSTag || !bytes.Equal(v.header, []byte{0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0}) {
		t.Errorf("%+v", v)
	}
	e, p := connectReads(t, CRCOn, readyWrite)
	e.post(rdma.Request{Op: rdma.OpSend, ID: 1})
	e.want(rdma.OpSend, 1, rdma.StatusSuccess)
	if _, _, err := p.receive(); err != nil {
		t.Fatal(err)
	}
	// The answer waits for the right to send, and then finds the region closed.
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	qp.Initiator.Sending = true
	qp.Initiator.Unlock()
	req := frame.ReadRequest{SinkSTag: 1, SinkTO: 100, Size: 50, SourceSTag: uint32(e.at(0).Token), SourceTO: e.at(9).Addr}
	p.fpdu(readSegment(1), req.AppendTo(nil))
	e.recv(1, 0, 1)
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), nil)
	e.want(rdma.OpReceive, 1, rdma.StatusSuccess)
	e.mr.Close()
	qp.c.tx.pump()
	s := readSegment(1)
	if got := p.wantTerminate(); !bytes.Equal(got, append(s.AppendTo([]byte{0x01, 0, 0xE0, 0, 0, 46}), req.AppendTo(nil)...)) {
		t.Errorf("Terminate %x", got)
	}
	e.wantDone()
	if err := e.con.Err(); errors.Is(err, rdma.StatusConnectionInvalid) {
		t.Error(err)
	}
}

// Requests of this side are sent between many answers.
//
// Source: [RFC 5040 §5.5]
func TestRequestsAreSentBetweenAnswers(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	qp.Initiator.Sending = true
	for i := range 3 * answerBurst {
		qp.reads.answers.Push().req = frame.ReadRequest{SinkSTag: uint32(i)}
	}
	qp.Initiator.Unlock()
	e.post(rdma.Request{Op: rdma.OpSend, ID: 0}, rdma.Request{Op: rdma.OpSend, ID: 1})
	qp.c.tx.pump()
	var order []frame.Opcode
	for range 3*answerBurst + 2 {
		s, _, err := p.receive()
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, s.Opcode())
	}
	if order[answerBurst] != frame.OpSend || order[2*answerBurst+1] != frame.OpSend {
		t.Error(order)
	}
}

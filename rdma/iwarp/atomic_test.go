package iwarp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Both operations agree with a model that computes each bit.
//
// Source: [RFC 7306 §5.1.1], [RFC 7306 §5.1.2]
func TestAtomicsAgreeWithBitModel(t *testing.T) {
	for _, c := range []struct {
		old, want uint64
		req       frame.AtomicRequest
	}{
		{5, 12, frame.AtomicRequest{Data: 7}},
		{^uint64(0), 0, frame.AtomicRequest{Data: 1}},
		// Four independent numbers of 16 bits.
		{0xFFFF_0001_8000_0000, 0x0000_0002_0000_FFFF, frame.AtomicRequest{Data: 0x0001_0001_8000_FFFF, Mask: 0x8000_8000_8000_8000}},
		{0xFF, 0x00, frame.AtomicRequest{Data: 0xFF, Mask: ^uint64(0)}}, // each bit separately
		{7, 9, frame.AtomicRequest{Op: frame.AtomicCompareSwap, Data: 9, Mask: ^uint64(0), CompareData: 7, CompareMask: ^uint64(0)}},
		{7, 7, frame.AtomicRequest{Op: frame.AtomicCompareSwap, Data: 9, Mask: ^uint64(0), CompareData: 8, CompareMask: ^uint64(0)}},
		{0xAB12, 0xAB34, frame.AtomicRequest{Op: frame.AtomicCompareSwap, Data: 0xFF34, Mask: 0xFF, CompareData: 0xAB00, CompareMask: 0xFF00}},
		{7, 9, frame.AtomicRequest{Op: frame.AtomicCompareSwap, Data: 9, Mask: ^uint64(0), CompareData: 1}}, // compares no bit
	} {
		if got := c.req.After(c.old); got != c.want {
			t.Errorf("%x by %+v is %x, want %x", c.old, c.req, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		old, data, mask := rapid.Uint64().Draw(t, "old"), rapid.Uint64().Draw(t, "data"), rapid.Uint64().Draw(t, "mask")
		want, carry := uint64(0), uint64(0)
		for bit := range 64 {
			sum := old>>bit&1 + data>>bit&1 + carry
			want |= sum & 1 << bit
			carry = sum >> 1 &^ (mask >> bit & 1)
		}
		if got := (&frame.AtomicRequest{Data: data, Mask: mask}).After(old); got != want {
			t.Fatalf("%x + %x without carries out of %x is %x, want %x", old, data, mask, got, want)
		}
	})
}

func atomicSegment(msn uint32) frame.Segment {
	return frame.UntaggedSegment(frame.OpAtomicRequest, frame.QueueRequest, msn, 0, true)
}

// The requests of this side have the right bytes, and the answers are placed.
//
// Source: [RFC 7306 §5.2.1], [RFC 7306 §5.2.2]
func TestAtomicRequestBytes(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	at := rdma.RemoteAddr{Addr: 0x1008, Token: 0x01020304}
	fillRandom(e.buf[:32], 7)
	around := bytes.Clone(e.buf[:32])
	e.post(
		rdma.Request{Op: rdma.OpFetchAdd, ID: 1, SGL: e.sgl(8, 8), Remote: at, Atomic: rdma.Atomic{Value: 2, Mask: 1 << 63, Compare: 9, CompareMask: 9}},
		rdma.Request{
			Op: rdma.OpCompareSwap, ID: 2, SGL: []rdma.SGE{{Region: e.mr, Offset: 19, Length: 3}, {Region: e.mr, Offset: 22, Length: 5}},
			Remote: at, Atomic: rdma.Atomic{Value: 3, Mask: 0xFF, Compare: 4, CompareMask: 0xF0},
		},
	)
	for i, want := range []string{
		"414a 00000000 00000001 00000001 00000000 00000000 00000001 01020304 0000000000001008" +
			"0000000000000002 8000000000000000 0000000000000000 ffffffffffffffff",
		"414a 00000000 00000001 00000002 00000000 00000002 00000002 01020304 0000000000001008" +
			"0000000000000003 00000000000000ff 0000000000000004 00000000000000f0",
	} {
		s, b, err := p.receive()
		if got := s.AppendTo(nil); err != nil || !bytes.Equal(append(got, b...), decodeHex(t, want)) {
			t.Errorf("request %d: %x%x %v", i, got, b, err)
		}
	}
	values := []uint64{0x1122334455667788, 1}
	for i, v := range values {
		s := frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, uint32(i+1), 0, true)
		p.fpdu(s, (&frame.AtomicResponse{ID: uint32(i + 1), Original: v}).AppendTo(nil))
	}
	e.want(rdma.OpFetchAdd, 1, rdma.StatusSuccess)
	e.want(rdma.OpCompareSwap, 2, rdma.StatusSuccess)
	binary.NativeEndian.PutUint64(around[8:], values[0])
	binary.NativeEndian.PutUint64(around[19:], values[1])
	if !bytes.Equal(e.buf[:32], around) {
		t.Errorf("% x, want % x", e.buf[:32], around)
	}
}

// Both operations are sent between reads. The answers come in the order of the requests.
//
// Source: [RFC 7306 §5.2.2], [RFC 7306 §5.1]
func TestAtomicAnswersKeepOrder(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	binary.NativeEndian.PutUint64(e.buf[16:], 40)
	e.recv(1, 0, 1)
	at := e.at(16)
	ask := func(msn uint32, r frame.AtomicRequest) {
		r.STag, r.TO = uint32(at.Token), at.Addr
		p.fpdu(atomicSegment(msn), r.AppendTo(nil))
	}
	answer := func(msn, id uint32, original uint64) {
		t.Helper()
		s, b, err := p.receive()
		if s != frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, msn, 0, true) || err != nil ||
			!bytes.Equal(b, (&frame.AtomicResponse{ID: id, Original: original}).AppendTo(nil)) {
			t.Errorf("%+v %x %v, want %d %d", s, b, err, id, original)
		}
	}
	ask(1, frame.AtomicRequest{Op: frame.AtomicFetchAdd, ID: 0xABCD, Data: 2, CompareMask: ^uint64(0)})
	answer(1, 0xABCD, 40)
	p.fpdu(readSegment(2), (&frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 8, SourceSTag: uint32(at.Token), SourceTO: at.Addr}).AppendTo(nil))
	ask(3, frame.AtomicRequest{Op: frame.AtomicCompareSwap, ID: 0, Data: 7, Mask: ^uint64(0), CompareData: 42, CompareMask: ^uint64(0)})
	if s, b, err := p.receive(); s != frame.TaggedSegment(frame.OpReadResponse, 1, 2, true) || len(b) != 8 || err != nil {
		t.Error(s, b, err)
	}
	answer(2, 0, 42)
	ask(4, frame.AtomicRequest{Op: frame.AtomicCompareSwap, ID: 3, Data: 1, Mask: ^uint64(0), CompareData: 42, CompareMask: ^uint64(0)})
	answer(3, 3, 7)
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), nil)
	e.want(rdma.OpReceive, 1, rdma.StatusSuccess)
	if got := binary.NativeEndian.Uint64(e.buf[16:]); got != 7 {
		t.Error(got)
	}
}

// atomicTerminates are atomic operations that a peer must not request.
var atomicTerminates = []struct {
	name   string
	change func(s *frame.Segment, r *frame.AtomicRequest)
	size   int
	want   []byte
}{
	{"unaligned", func(_ *frame.Segment, r *frame.AtomicRequest) { r.TO += 4 }, 52, []byte{0x02, 7, 0xC0, 0}},
	{"unknown operation", func(_ *frame.Segment, r *frame.AtomicRequest) { r.Op = 1 }, 52, []byte{0x02, 6, 0xC0, 0}},
	{"token", func(_ *frame.Segment, r *frame.AtomicRequest) { r.STag ^= 2 }, 52, []byte{0x01, 0, 0xC0, 0}},
	{"one byte too far", func(_ *frame.Segment, r *frame.AtomicRequest) { r.TO += 256<<10 - 7 }, 52, []byte{0x01, 1, 0xC0, 0}},
	{"one word too early", func(_ *frame.Segment, r *frame.AtomicRequest) { r.TO -= 8 }, 52, []byte{0x01, 1, 0xC0, 0}},
	{"wraps", func(_ *frame.Segment, r *frame.AtomicRequest) { r.TO = 1<<64 - 8 }, 52, []byte{0x01, 4, 0xC0, 0}},
	{"queue", func(s *frame.Segment, _ *frame.AtomicRequest) { s.QN = 0 }, 52, []byte{0x12, 1, 0xC0, 0}},
	{"sequence", func(s *frame.Segment, _ *frame.AtomicRequest) { s.MSN = 2 }, 52, []byte{0x12, 3, 0xC0, 0}},
	{"offset", func(s *frame.Segment, _ *frame.AtomicRequest) { s.MO = 4 }, 52, []byte{0x12, 4, 0xC0, 0}},
	{"too long", func(*frame.Segment, *frame.AtomicRequest) {}, 53, []byte{0x12, 5, 0xC0, 0}},
	{"too short", func(*frame.Segment, *frame.AtomicRequest) {}, 51, []byte{0x02, 0xFF, 0xC0, 0}},
	{"not the last", func(s *frame.Segment, _ *frame.AtomicRequest) { s.DDP &^= frame.DDPLast }, 52, []byte{0x02, 0xFF, 0xC0, 0}},
}

// The memory is unchanged, and the Terminate has the DDP header but no RDMAP header.
//
// Source: [RFC 7306 §5.1], [RFC 7306 §8], [RFC 5040 §4.8]
func TestInvalidAtomicEndsWithTerminate(t *testing.T) {
	for _, c := range atomicTerminates {
		for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
			e, p := connectReads(t, crc, readyWrite)
			e.recv(1, 0, 1)
			s, r := atomicSegment(1), frame.AtomicRequest{ID: 5, STag: uint32(e.at(0).Token), TO: e.at(0).Addr, Data: ^uint64(0)}
			c.change(&s, &r)
			p.fpdu(s, append(r.AppendTo(nil), 0)[:c.size])
			want := s.AppendTo(binary.BigEndian.AppendUint16(bytes.Clone(c.want), uint16(18+c.size)))
			if got := p.wantTerminate(); !bytes.Equal(got, want) {
				t.Errorf("%s: Terminate %x, want %x", c.name, got, want)
			}
			e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
			if !bytes.Equal(e.buf[:64], make([]byte, 64)) {
				t.Errorf("%s: the memory changed", c.name)
			}
		}
	}
}

// An atomic operation needs the rights of remote read and of remote write.
//
// Source: [RFC 5042 §6.3.5], [RFC 7306 §5]
func TestAtomicNeedsBothRights(t *testing.T) {
	for _, access := range []rdma.Access{rdma.AccessRemoteRead, rdma.AccessRemoteWrite, rdma.AccessLocalWrite | rdma.AccessRemoteRead} {
		e, p := connectReads(t, CRCOn, readyWrite)
		mr, err := e.a.RegisterMemory(t.Context(), e.buf, access)
		if err != nil {
			t.Fatal(err)
		}
		r := frame.AtomicRequest{STag: uint32(mr.RemoteAddr().Token), TO: mr.RemoteAddr().Addr, Data: 1}
		p.fpdu(atomicSegment(1), r.AppendTo(nil))
		if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x01, 2, 0xC0, 0}) {
			t.Errorf("access %x: Terminate %x", access, got)
		}
		if !bytes.Equal(e.buf[:8], make([]byte, 8)) {
			t.Error("the memory changed")
		}
	}
}

// Atomics and reads in progress count together.
//
// Source: [RFC 7306 §5], [RFC 6581 §9.1], [RFC 5042 §6.4.3.3]
func TestTooManyAtomicsEndTheConnection(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	qp.Initiator.Sending = true // no goroutine answers
	qp.Initiator.Unlock()
	t.Cleanup(func() {
		if t.Failed() { // the end of the side waits for the goroutine that sends
			qp.Initiator.Lock()
			qp.Initiator.Sending = false
			qp.Initiator.Unlock()
			qp.c.tx.pump()
		}
	})
	r := frame.AtomicRequest{STag: uint32(e.at(0).Token), TO: e.at(0).Addr}
	stream := p.frame(readSegment(1), (&frame.ReadRequest{}).AppendTo(nil))
	stream = append(stream, p.frame(atomicSegment(2), r.AppendTo(nil))...)
	p.send(append(stream, p.frame(atomicSegment(3), r.AppendTo(nil))...))
	e.wantDone()
	qp.c.tx.pump()
	var last frame.Segment
	var got []byte
	for last.Opcode() != frame.OpTerminate {
		var err error
		if last, got, err = p.receive(); err != nil {
			t.Fatal(err)
		}
	}
	third := atomicSegment(3)
	if want := third.AppendTo([]byte{0x02, 7, 0xC0, 0, 0, 70}); !bytes.Equal(got, want) {
		t.Errorf("Terminate %x, want %x", got, want)
	}
	p.wantEnd()
}

// At most as many atomics and reads are sent as the peer accepts.
//
// Source: [RFC 7306 §5], [RFC 5040 §5.2]
func TestAtomicsStayWithinOutboundLimit(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	at := rdma.RemoteAddr{Addr: 8, Token: 9}
	e.post(
		rdma.Request{Op: rdma.OpFetchAdd, ID: 0, SGL: e.sgl(0, 8), Remote: at},
		rdma.Request{Op: rdma.OpRead, ID: 1, SGL: e.sgl(8, 8), Remote: at},
		rdma.Request{Op: rdma.OpCompareSwap, ID: 2, SGL: e.sgl(16, 8), Remote: at},
		rdma.Request{Op: rdma.OpSend, ID: 3, Flags: rdma.FlagReadFence},
	)
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock()
	if n := qp.reads.own.Len(); n != 2 {
		t.Errorf("%d requests are out, and the peer takes 2", n)
	}
	qp.Initiator.Unlock()
	want := func(op frame.Opcode) []byte {
		t.Helper()
		s, b, err := p.receive()
		if err != nil || s.Opcode() != op {
			t.Fatalf("%+v %v, want opcode %x", s, err, op)
		}
		return b
	}
	want(frame.OpAtomicRequest)
	read, _ := frame.DecodeReadRequest(want(frame.OpReadRequest))
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 4}) // arrives after any request that was sent too early
	answer := func(msn, id uint32) {
		p.fpdu(frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, msn, 0, true), (&frame.AtomicResponse{ID: id}).AppendTo(nil))
	}
	answer(1, 1)
	want(frame.OpAtomicRequest)
	p.fpdu(frame.TaggedSegment(frame.OpReadResponse, read.SinkSTag, read.SinkTO, true), make([]byte, 8))
	e.want(rdma.OpFetchAdd, 0, rdma.StatusSuccess)
	e.want(rdma.OpRead, 1, rdma.StatusSuccess)
	if n, _ := e.cq.Poll(make([]rdma.Result, 1)); n != 0 {
		t.Error("the fence does not hold for an atomic")
	}
	answer(2, 3)
	want(frame.OpSend)
	want(frame.OpWrite)
	e.want(rdma.OpCompareSwap, 2, rdma.StatusSuccess)
}

// atomicAnswerTerminates are wrong answers to an atomic operation.
var atomicAnswerTerminates = []struct {
	name  string
	frame func(p *rawPeer) []byte
	want  []byte
}{
	{"identifier", atomicAnswer(func(_ *frame.Segment, r *frame.AtomicResponse) { r.ID++ }, 12), []byte{0x02, 0xFF, 0xC0, 0}},
	{"queue", atomicAnswer(func(s *frame.Segment, _ *frame.AtomicResponse) { s.QN = frame.QueueRequest }, 12), []byte{0x12, 1, 0xC0, 0}},
	{"sequence", atomicAnswer(func(s *frame.Segment, _ *frame.AtomicResponse) { s.MSN = 2 }, 12), []byte{0x12, 3, 0xC0, 0}},
	{"offset", atomicAnswer(func(s *frame.Segment, _ *frame.AtomicResponse) { s.MO = 12 }, 12), []byte{0x12, 4, 0xC0, 0}},
	{"too long", atomicAnswer(func(*frame.Segment, *frame.AtomicResponse) {}, 13), []byte{0x12, 5, 0xC0, 0}},
	{"too short", atomicAnswer(func(*frame.Segment, *frame.AtomicResponse) {}, 8), []byte{0x02, 0xFF, 0xC0, 0}},
	{"not the last", atomicAnswer(func(s *frame.Segment, _ *frame.AtomicResponse) { s.DDP &^= frame.DDPLast }, 12), []byte{0x02, 0xFF, 0xC0, 0}},
	{"as a read's", func(p *rawPeer) []byte {
		return p.frame(frame.TaggedSegment(frame.OpReadResponse, 0, 0, true), make([]byte, 8))
	}, []byte{0x02, 6, 0xC0, 0}},
}

// atomicAnswer makes the first answer, changed by f and cut to n bytes.
func atomicAnswer(f func(*frame.Segment, *frame.AtomicResponse), n int) func(*rawPeer) []byte {
	return func(p *rawPeer) []byte {
		s, r := frame.UntaggedSegment(frame.OpAtomicResponse, frame.QueueAtomicResponse, 1, 0, true), frame.AtomicResponse{ID: 1, Original: ^uint64(0)}
		f(&s, &r)
		return p.frame(s, append(r.AppendTo(nil), 0)[:n])
	}
}

// Only the right answer in its turn is placed.
//
// Source: [RFC 7306 §5.2.2], [RFC 5041 §7]
func TestWrongAtomicResponseIsRefused(t *testing.T) {
	for _, c := range atomicAnswerTerminates {
		e, p := connectReads(t, CRCOn, readyWrite)
		e.post(rdma.Request{Op: rdma.OpFetchAdd, ID: 9, SGL: e.sgl(0, 8), Remote: rdma.RemoteAddr{Addr: 8, Token: 9}})
		if s, _, err := p.receive(); s != atomicSegment(1) || err != nil {
			t.Fatal(s, err)
		}
		p.send(c.frame(p))
		if got := p.wantTerminate(); !bytes.Equal(got[:4], c.want) {
			t.Errorf("%s: Terminate %x, want %x", c.name, got, c.want)
		}
		e.want(rdma.OpFetchAdd, 9, rdma.StatusCanceled)
		if !bytes.Equal(e.buf[:8], make([]byte, 8)) {
			t.Errorf("%s: placed", c.name)
		}
	}
	t.Run("before a read", func(t *testing.T) {
		e, p := connectReads(t, CRCOn, readyWrite)
		e.post(rdma.Request{Op: rdma.OpRead, ID: 1, SGL: e.sgl(8, 8)}, rdma.Request{Op: rdma.OpFetchAdd, ID: 2, SGL: e.sgl(0, 8)})
		for range 2 {
			if _, _, err := p.receive(); err != nil {
				t.Fatal(err)
			}
		}
		p.send(atomicAnswer(func(_ *frame.Segment, r *frame.AtomicResponse) { r.ID = 2 }, 12)(p))
		if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x02, 6, 0xC0, 0}) {
			t.Errorf("Terminate %x", got)
		}
	})
}

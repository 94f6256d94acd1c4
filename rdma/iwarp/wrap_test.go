package iwarp

import (
	"bytes"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// nearWrap sets the sequence numbers of the next messages of a side, of all kinds and in
// both directions, to the last number before the wrap to 0.
func (e *side) nearWrap() uint32 {
	const first = ^uint32(0) - 1
	qp := e.qp.(*queuePair)
	qp.Initiator.Lock() // no goroutine writes
	t := &qp.c.tx.framer
	t.msn, t.readMSN, t.atomicMSN = first, first, first
	x := &qp.c.rx
	x.msn, x.readMSN, x.atomicMSN = first, first, first
	qp.Initiator.Unlock()
	raceRelease() // makes the change visible to the reader, which waits for the socket
	return first
}

// All message sequence numbers pass 2^32.
//
// Source: [RFC 5041 §4.3], [RFC 5041 §5.3]
func TestSequenceNumbersWrap(t *testing.T) {
	client, server := connect(t, nil, nil, shape{depth: 16, sge: 1, buf: 4096, limits: rdma.ReadLimits{Inbound: 2, Outbound: 2}})
	client.post(rdma.Request{Op: rdma.OpWrite, ID: 99}) // ends the start-up
	client.want(rdma.OpWrite, 99, rdma.StatusSuccess)
	client.nearWrap()
	server.nearWrap()
	for i := range uint64(4) {
		for _, ends := range [][2]*side{{client, server}, {server, client}} {
			from, to := ends[0], ends[1]
			to.recv(i, 0, 8)
			from.post(
				rdma.Request{Op: rdma.OpFetchAdd, ID: i, SGL: from.sgl(16, 8), Remote: to.at(64), Atomic: rdma.Atomic{Value: 1}},
				rdma.Request{Op: rdma.OpRead, ID: i, SGL: from.sgl(24, 8), Remote: to.at(64)},
				rdma.Request{Op: rdma.OpSend, ID: i, SGL: from.sgl(24, 8)},
			)
			from.want(rdma.OpFetchAdd, i, rdma.StatusSuccess)
			from.want(rdma.OpRead, i, rdma.StatusSuccess)
			from.want(rdma.OpSend, i, rdma.StatusSuccess)
			if r := to.want(rdma.OpReceive, i, rdma.StatusSuccess); r.Bytes != 8 {
				t.Errorf("%+v", r)
			}
		}
	}
	qp := client.qp.(*queuePair)
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	if x := &qp.c.tx.framer; x.msn != 2 || x.readMSN != 6 || x.atomicMSN != 2 {
		t.Errorf("numbers %d %d %d after the wrap", x.msn, x.readMSN, x.atomicMSN)
	}
}

// The sequence numbers of Sends are right around the wrap. A wrong number is refused
// there.
//
// Source: [RFC 5041 §5.3], [RFC 5041 §7]
func TestSendNumbersAroundWrap(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.nearWrap()
	for i, msn := range []uint32{0xFFFFFFFE, 0xFFFFFFFF, 0, 1} {
		e.recv(uint64(i), 0, 1)
		p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, msn, 0, true), nil)
		e.want(rdma.OpReceive, uint64(i), rdma.StatusSuccess)
		e.post(rdma.Request{Op: rdma.OpSend, ID: 7})
		if s, _, err := p.receive(); err != nil || s != frame.UntaggedSegment(frame.OpSend, frame.QueueSend, msn, 0, true) {
			t.Errorf("%+v %v, want number %d", s, err, msn)
		}
		e.want(rdma.OpSend, 7, rdma.StatusSuccess)
	}
	e.recv(9, 0, 1)
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 0xFFFFFFFF, 0, true), nil)
	if got := p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x12, 3}) {
		t.Errorf("Terminate %x", got)
	}
}

// Tagged offsets near 2^64 have no special meaning if only the peer interprets them.
//
// Source: [RFC 5041 §4.2], [RFC 5040 §4.4]
func TestTaggedOffsetsNearWrap(t *testing.T) {
	e, p := connectReads(t, CRCOff, readyWrite)
	fillRandom(e.buf[:1000], 3)
	const top = ^uint64(0)
	p.fpdu(readSegment(1), (&frame.ReadRequest{SinkSTag: 9, SinkTO: top - 99, Size: 100, SourceSTag: uint32(e.at(0).Token), SourceTO: e.at(0).Addr}).AppendTo(nil))
	if s, b, err := p.receive(); err != nil || s != frame.TaggedSegment(frame.OpReadResponse, 9, top-99, true) || !bytes.Equal(b, e.buf[:100]) {
		t.Error(s, err)
	}
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 1, SGL: e.sgl(0, 100), Remote: rdma.RemoteAddr{Addr: top - 99, Token: 5}})
	if s, b, err := p.receive(); err != nil || s != frame.TaggedSegment(frame.OpWrite, 5, top-99, true) || len(b) != 100 {
		t.Error(s, err)
	}
	e.want(rdma.OpWrite, 1, rdma.StatusSuccess)
}

// Empty messages may name memory that does not exist. They count in their sequence.
//
// Source: [RFC 5041 §5], [RFC 5040 §4.4], [RFC 5040 §5.2]
func TestEmptyMessagesNeedNoMemory(t *testing.T) {
	e, p := connectReads(t, CRCOn, readyWrite)
	e.recv(1, 0, 0)
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 0xDEADBEEF, ^uint64(0), true), nil)
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 0, 0, false), nil)
	p.fpdu(readSegment(1), (&frame.ReadRequest{SinkSTag: 7, SinkTO: 8, Size: 0, SourceSTag: 0xDEADBEEF, SourceTO: ^uint64(0)}).AppendTo(nil))
	if s, b, err := p.receive(); err != nil || len(b) != 0 || s != frame.TaggedSegment(frame.OpReadResponse, 7, 8, true) {
		t.Error(s, err)
	}
	p.fpdu(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), nil)
	if r := e.want(rdma.OpReceive, 1, rdma.StatusSuccess); r.Bytes != 0 {
		t.Errorf("%+v", r)
	}
	e.post(
		rdma.Request{Op: rdma.OpWrite, ID: 2},
		rdma.Request{Op: rdma.OpSend, ID: 3},
		rdma.Request{Op: rdma.OpRead, ID: 4},
	)
	var read frame.ReadRequest
	for _, want := range []frame.Segment{
		frame.TaggedSegment(frame.OpWrite, 0, 0, true),
		frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true),
		readSegment(1),
	} {
		s, b, err := p.receive()
		if err != nil || s != want {
			t.Fatalf("%+v %v, want %+v", s, err, want)
		}
		if len(b) > 0 {
			read, _ = frame.DecodeReadRequest(b)
		}
	}
	p.fpdu(frame.TaggedSegment(frame.OpReadResponse, ^read.SinkSTag, 0, true), nil) // neither is checked
	e.want(rdma.OpWrite, 2, rdma.StatusSuccess)
	e.want(rdma.OpSend, 3, rdma.StatusSuccess)
	e.want(rdma.OpRead, 4, rdma.StatusSuccess)
}

// Sides of all revisions interoperate, also for reads: the passive side accepts both
// revisions.
//
// Source: [RFC 6581 §10], [RFC 5044 §7.1]
func TestAllMPARevisionsInteroperate(t *testing.T) {
	for ours := range 3 {
		for theirs := range 3 {
			client, server := connect(t, &Config{Revision: ours}, &Config{Revision: theirs},
				shape{depth: 4, sge: 1, buf: 4096, limits: rdma.ReadLimits{Inbound: 1, Outbound: 1}})
			var want rdma.ReadLimits // revision 1 has none
			if ours != 1 {
				want = rdma.ReadLimits{Inbound: 1, Outbound: 1}
			}
			if got, err := client.con.ReadLimits(); err != nil || got != want {
				t.Errorf("%d to %d: read limits %v, %v", ours, theirs, got, err)
			}
			for _, ends := range [][2]*side{{client, server}, {server, client}} {
				from, to := ends[0], ends[1]
				to.recv(1, 0, 8)
				from.post(
					rdma.Request{Op: rdma.OpRead, ID: 2, SGL: from.sgl(8, 8), Remote: to.at(0)},
					rdma.Request{Op: rdma.OpSend, ID: 3, SGL: from.sgl(0, 8)},
				)
				from.want(rdma.OpRead, 2, rdma.StatusSuccess)
				from.want(rdma.OpSend, 3, rdma.StatusSuccess)
				to.want(rdma.OpReceive, 1, rdma.StatusSuccess)
			}
		}
	}
}

// With limits of 0 no read and no atomic is sent. The peer's first one exceeds the limit,
// even with no bytes.
//
// Source: [RFC 6581 §9.1], [RFC 5040 §5.2]
func TestReadsNeedAReadLimit(t *testing.T) {
	for name, frame := range map[string]func(p *rawPeer) []byte{
		"read": func(p *rawPeer) []byte { return p.frame(readSegment(1), make([]byte, frame.ReadRequestSize)) },
		"atomic": func(p *rawPeer) []byte {
			return p.frame(atomicSegment(1), make([]byte, frame.AtomicRequestSize))
		},
	} {
		e, p := connectRaw(t, CRCOn)
		for _, op := range []rdma.Op{rdma.OpRead, rdma.OpFetchAdd, rdma.OpCompareSwap} {
			n, err := e.qp.Post([]rdma.Request{{Op: op, SGL: e.sgl(0, 8)}})
			if n != 0 || rdma.StatusOf(err) != rdma.StatusInvalidDeviceRequest {
				t.Errorf("%v: %d %v", op, n, err)
			}
		}
		p.send(frame(p))
		if got := p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x02, 7}) {
			t.Errorf("%s: Terminate %x", name, got)
		}
	}
}

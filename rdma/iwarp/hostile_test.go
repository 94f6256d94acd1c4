package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// terminateCases are violations of the protocol, with the Terminate for each. want omits
// the header of the segment, which follows if the layout flags say so.
var terminateCases = []struct {
	name  string
	frame func(e *side, p *rawPeer) []byte
	want  []byte // first four bytes
	// receive is the status of the first receive.
	receive rdma.Status
	status  rdma.Status
}{
	{"tagged DDP version", tagged(func(s *frame.Segment, _ *side) { s.DDP = 0xC0 }, 8), []byte{0x11, 4, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"untagged DDP version", untagged(func(s *frame.Segment) { s.DDP = 0x43 }, 8), []byte{0x12, 6, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"RDMAP version", untagged(func(s *frame.Segment) { s.RDMAP = 0x03 }, 8), []byte{0x02, 5, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"RDMAP version tagged", tagged(func(s *frame.Segment, _ *side) { s.RDMAP = 0x80 }, 8), []byte{0x02, 5, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"unknown opcode", untagged(func(s *frame.Segment) { s.RDMAP = 0x4C }, 8), []byte{0x02, 6, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"tagged send", tagged(func(s *frame.Segment, _ *side) { s.RDMAP = 0x43 }, 8), []byte{0x02, 6, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"untagged write", untagged(func(s *frame.Segment) { s.RDMAP = 0x40 }, 8), []byte{0x02, 6, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"read request too many", untagged(func(s *frame.Segment) { s.RDMAP, s.QN = 0x41, 1 }, frame.ReadRequestSize), []byte{0x02, 7, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"read response", tagged(func(s *frame.Segment, _ *side) { s.RDMAP = 0x42 }, 8), []byte{0x02, 6, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate on queue 1", untagged(func(s *frame.Segment) { s.RDMAP, s.QN = 0x48, 1 }, 8), []byte{0x12, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate out of order", untagged(func(s *frame.Segment) { s.RDMAP, s.MSN = 0x48, 2 }, 8), []byte{0x12, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate with an offset", untagged(func(s *frame.Segment) { s.RDMAP, s.MO = 0x49, 8 }, 8), []byte{0x12, 4, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate too long", untagged(func(s *frame.Segment) { s.RDMAP = 0x48 }, 9), []byte{0x12, 5, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate too short", untagged(func(s *frame.Segment) { s.RDMAP = 0x49 }, 7), []byte{0x02, 0xFF, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"immediate in parts", untagged(func(s *frame.Segment) { s.RDMAP, s.DDP = 0x48, 0x01 }, 8), []byte{0x02, 0xFF, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"atomic too many", untagged(func(s *frame.Segment) { s.RDMAP, s.QN = 0x4A, 1 }, frame.AtomicRequestSize), []byte{0x02, 7, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"atomic response", untagged(func(s *frame.Segment) { s.RDMAP, s.QN = 0x4B, 3 }, frame.AtomicResponseSize), []byte{0x12, 2, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"unknown token", tagged(func(s *frame.Segment, _ *side) { s.STag ^= 1 }, 8), []byte{0x11, 0, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"one byte too far", tagged(func(s *frame.Segment, e *side) { s.TO += uint64(len(e.buf)) - 7 }, 8), []byte{0x11, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"one byte too early", tagged(func(s *frame.Segment, _ *side) { s.TO-- }, 8), []byte{0x11, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"far away", tagged(func(s *frame.Segment, _ *side) { s.TO = 1 << 63 }, 8), []byte{0x11, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"wraps", tagged(func(s *frame.Segment, _ *side) { s.TO = ^uint64(0) - 3 }, 8), []byte{0x11, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"wraps to zero", tagged(func(s *frame.Segment, _ *side) { s.TO = ^uint64(0) - 7 }, 8), []byte{0x11, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"queue number", untagged(func(s *frame.Segment) { s.QN = 5 }, 8), []byte{0x12, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"send on queue 1", untagged(func(s *frame.Segment) { s.QN = 1 }, 8), []byte{0x12, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"skipped MSN", untagged(func(s *frame.Segment) { s.MSN = 2 }, 8), []byte{0x12, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"old MSN", untagged(func(s *frame.Segment) { s.MSN = 0 }, 8), []byte{0x12, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"message offset", untagged(func(s *frame.Segment) { s.MO = 8 }, 8), []byte{0x12, 4, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"too long", untagged(func(*frame.Segment) {}, 101), []byte{0x12, 5, 0xC0, 0}, rdma.StatusBufferOverflow, rdma.StatusBufferOverflow},
	{"invalidate", untagged(func(s *frame.Segment) { s.RDMAP, s.STag = 0x44, 99 }, 8), []byte{0x01, 9, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"invalidate with event", untagged(func(s *frame.Segment) { s.RDMAP = 0x46 }, 8), []byte{0x01, 9, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"terminate on another queue", untagged(func(s *frame.Segment) { s.RDMAP = 0x47 }, 4), []byte{0x12, 1, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"second terminate", untagged(func(s *frame.Segment) { s.RDMAP, s.QN, s.MSN = 0x47, 2, 2 }, 4), []byte{0x12, 3, 0xC0, 0}, 0, rdma.StatusRemoteError},
	{"short segment", func(_ *side, p *rawPeer) []byte { return frame.AppendFPDU(nil, []byte{0x41, 0x43, 0, 0}, p.crc) }, []byte{0x20, 3, 0, 0}, 0, rdma.StatusRemoteError},
	{"short untagged segment", func(_ *side, p *rawPeer) []byte { return frame.AppendFPDU(nil, make([]byte, 17), p.crc) }, []byte{0x20, 3, 0, 0}, 0, rdma.StatusRemoteError},
	{"empty ULPDU", func(_ *side, p *rawPeer) []byte { return frame.AppendFPDU(nil, nil, p.crc) }, []byte{0x20, 3, 0, 0}, 0, rdma.StatusRemoteError},
}

// tagged makes a write of n bytes to the side's memory, changed by f.
func tagged(f func(*frame.Segment, *side), n int) func(*side, *rawPeer) []byte {
	return func(e *side, p *rawPeer) []byte {
		at := e.at(0)
		s := frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true)
		f(&s, e)
		return p.frame(s, bytes.Repeat([]byte{0xEE}, n))
	}
}

// untagged makes a first Send of n bytes, changed by f.
func untagged(f func(*frame.Segment), n int) func(*side, *rawPeer) []byte {
	return func(_ *side, p *rawPeer) []byte {
		s := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true)
		f(&s)
		return p.frame(s, bytes.Repeat([]byte{0xEE}, n))
	}
}

// Each wrong frame, with more data behind it, is answered by the right Terminate.
//
// Source: [RFC 5040 §4.8], [RFC 5040 §7], [RFC 5041 §7], [RFC 5042 §6.3]
func TestViolationsAreAnsweredByTerminate(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		for _, c := range terminateCases {
			name := c.name
			if crc == CRCOff {
				name += " without CRC"
			}
			t.Run(name, func(t *testing.T) {
				e, p := connectRaw(t, crc)
				e.recv(1, 100, 100)
				e.recv(2, 200, 100)
				sent := c.frame(e, p)
				p.send(append(bytes.Clone(sent), untagged(func(*frame.Segment) {}, 8)(e, p)...))
				got := p.wantTerminate()
				want := c.want
				if c.want[2] != 0 {
					ulpdu := sent[2 : 2+int(binary.BigEndian.Uint16(sent))]
					var s frame.Segment
					_ = s.Decode(ulpdu)
					want = binary.BigEndian.AppendUint16(bytes.Clone(want), uint16(len(ulpdu)))
					want = append(want, ulpdu[:s.Size()]...)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("Terminate %x, want %x", got, want)
				}
				first := c.receive
				if first == 0 {
					first = rdma.StatusCanceled
				}
				e.want(rdma.OpReceive, 1, first)
				e.want(rdma.OpReceive, 2, rdma.StatusCanceled)
				e.wantDone()
				var term *TerminateError
				if err := e.con.Err(); !errors.As(err, &term) || term.Remote || rdma.StatusOf(err) != c.status {
					t.Errorf("Err %v", err)
				}
				if bytes.IndexByte(e.buf[200:], 0xEE) >= 0 || bytes.IndexByte(e.buf[:100], 0xEE) >= 0 {
					t.Error("memory was touched")
				}
			})
		}
	}
}

// Source: [RFC 5044 §4.4], [RFC 5044 §8]
func TestWrongCRCEndsWithTerminate(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.recv(1, 0, 100)
	frame := tagged(func(*frame.Segment, *side) {}, 8)(e, p)
	frame[len(frame)-1] ^= 1
	p.send(frame)
	if got := p.wantTerminate(); !bytes.Equal(got, []byte{0x20, 2, 0, 0}) {
		t.Errorf("Terminate %x", got)
	}
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	if err := e.con.Err(); rdma.StatusOf(err) != rdma.StatusDataError {
		t.Error(err)
	}
	if !bytes.Equal(e.buf[:8], make([]byte, 8)) {
		t.Error("bytes with a wrong CRC were placed")
	}
}

// Source: [RFC 5041 §7], [ND §9 NdSendNoReceive]
func TestSendWithoutReceiveEndsWithTerminate(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	frame := untagged(func(*frame.Segment) {}, 3)(e, p)
	p.send(frame)
	want := append([]byte{0x12, 2, 0xC0, 0, 0, 21}, frame[2:20]...)
	if got := p.wantTerminate(); !bytes.Equal(got, want) {
		t.Errorf("Terminate %x, want %x", got, want)
	}
	e.wantDone()
}

// A write to a region without the right of remote write is refused.
//
// Source: [RFC 5042 §6.3.5]
func TestWriteToReadOnlyRegionIsRefused(t *testing.T) {
	for _, access := range []rdma.Access{0, rdma.AccessLocalWrite, rdma.AccessRemoteRead, rdma.AccessReadSink | rdma.AccessLocalWrite} {
		e, p := connectRaw(t, CRCOn)
		mr, err := e.a.RegisterMemory(t.Context(), e.buf, access)
		if err != nil {
			t.Fatal(err)
		}
		s := frame.TaggedSegment(frame.OpWrite, uint32(mr.RemoteAddr().Token), mr.RemoteAddr().Addr, true)
		p.fpdu(s, []byte{1})
		if got := p.wantTerminate(); got[0] != 0x11 || got[1] != 0 {
			t.Errorf("access %x: Terminate %x", access, got)
		}
		if e.buf[0] != 0 {
			t.Error("written")
		}
	}
}

// A token of another protection domain is refused.
//
// Source: [RFC 5042 §6.1.1]
func TestTokenOfOtherAdapterIsRefused(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	other := newSide(t, nil, shape{depth: 1, sge: 1, buf: 4096})
	p.send(tagged(func(*frame.Segment, *side) {}, 8)(other, p))
	if got := p.wantTerminate(); got[0] != 0x11 || got[1] != 0 {
		t.Errorf("Terminate %x", got)
	}
	e.wantDone()
}

// Terminates in both bit orders are understood.
//
// Source: [RFC 5040 §4.8], [ND §8 row 9]
func TestTerminateIsReadInBothBitOrders(t *testing.T) {
	for _, c := range []struct {
		payload []byte
		status  rdma.Status
		fault   frame.Fault
	}{
		{[]byte{0x11, 1, 0, 0}, rdma.StatusAccessViolation, frame.FaultBounds},
		{[]byte{0x11, 0, 0x01, 0}, rdma.StatusAccessViolation, frame.FaultSTag},
		{[]byte{0x21, 2, 0x03, 0, 0, 16}, rdma.StatusRemoteError, frame.FaultNoBuffer},
		{[]byte{0x20, 2, 0, 0}, rdma.StatusDataError, frame.FaultCRC},
		{[]byte{1}, rdma.StatusRemoteError, frame.FaultRDMAPOther},
	} {
		e, p := connectRaw(t, CRCOn)
		e.recv(1, 0, 1)
		p.fpdu(frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true), c.payload)
		p.wantEnd()
		e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
		err := e.con.Err()
		var term *TerminateError
		if !errors.As(err, &term) || !term.Remote || rdma.StatusOf(err) != c.status ||
			(frame.Fault{Layer: term.Layer, Kind: term.Type, Code: term.Code}) != c.fault {
			t.Errorf("%x: %v", c.payload, err)
		}
		if errors.Is(err, net.ErrClosed) {
			t.Errorf("%v looks like an orderly end", err)
		}
	}
}

// Valid frames that arrive byte by byte are handled.
//
// Source: [RFC 5044 §4], [OP-89b]
func TestFramesArriveByteByByte(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		e, p := connectRaw(t, crc)
		e.recv(1, 64, 16)
		stream := tagged(func(s *frame.Segment, _ *side) { s.TO += 8 }, 8)(e, p)
		part := frame.UntaggedSegment(frame.OpSendEvent, frame.QueueSend, 1, 0, false)
		stream = append(stream, p.frame(part, []byte("abc"))...)
		stream = append(stream, tagged(func(s *frame.Segment, _ *side) { s.TO += 3 }, 1)(e, p)...)
		part.DDP |= frame.DDPLast
		part.MO = 3
		stream = append(stream, p.frame(part, []byte("defgh"))...)
		for _, b := range stream {
			p.send([]byte{b})
		}
		r := e.want(rdma.OpReceive, 1, rdma.StatusSuccess)
		if r.Bytes != 8 || !r.Solicited || r.QueuePairContext != 7 || string(e.buf[64:72]) != "abcdefgh" {
			t.Errorf("%+v %q", r, e.buf[64:72])
		}
		if want := []byte{0, 0, 0, 0xEE, 0, 0, 0, 0, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0}; !bytes.Equal(e.buf[:17], want) {
			t.Errorf("% x", e.buf[:17])
		}
	}
}

// The end of the stream after a whole message is an orderly end. At any other byte it is
// not.
//
// Source: [RFC 5044 §8], [RFC 5040 §6.2]
func TestTruncatedStreamEndsTheConnection(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		length := len(untagged(func(*frame.Segment) {}, 20)(nil, &rawPeer{}))
		for cut := 0; cut <= length; cut += 3 {
			e, p := connectRaw(t, crc)
			e.recv(1, 0, 100)
			e.recv(2, 0, 100)
			p.send(untagged(func(*frame.Segment) {}, 20)(e, p)[:cut])
			p.nc.Close()
			first := rdma.StatusCanceled
			if cut == length {
				first = rdma.StatusSuccess
			}
			e.want(rdma.OpReceive, 1, first)
			e.want(rdma.OpReceive, 2, rdma.StatusCanceled)
			if err := e.con.Err(); errors.Is(err, net.ErrClosed) != true || (rdma.StatusOf(err) == rdma.StatusConnectionInvalid) != (cut == 0 || cut == length) {
				t.Errorf("cut at %d: %v", cut, err)
			}
			e.a.Close()
		}
	}
}

package iwarp

import (
	"bytes"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A write with immediate data is two frames with the right bytes. Both kinds of the
// message are received.
//
// Source: [RFC 7306 §6], [OP-86]
func TestImmediateDataBytes(t *testing.T) {
	e, p := connectRaw(t, CRCOff)
	copy(e.buf, "abcd")
	e.post(rdma.Request{
		Op: rdma.OpWrite, ID: 1, Flags: rdma.FlagImmediate, Immediate: 0xDEADBEEF,
		SGL: e.sgl(0, 4), Remote: rdma.RemoteAddr{Addr: 0x1000, Token: 0x01020304},
	})
	e.want(rdma.OpWrite, 1, rdma.StatusSuccess)
	want := decodeHex(t, "0012 c140 01020304 0000000000001000 61626364 00000000"+
		"001a 4148 00000000 00000000 00000001 00000000 00000000deadbeef 00000000")
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := p.nc.Read(got[n:])
		if n += m; err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for i, op := range []frame.Opcode{frame.OpImmediate, frame.OpImmediateEvent} {
		e.recv(uint64(i), 0, 4)
		p.fpdu(frame.UntaggedSegment(op, frame.QueueSend, uint32(i+1), 0, true), []byte{1, 2, 3, 4, 5, 6, 7, 8})
		r := e.want(rdma.OpReceive, uint64(i), rdma.StatusSuccess)
		if !r.HasImmediate || r.Immediate != 0x05060708 || r.Bytes != 0 || r.Solicited != (op == frame.OpImmediateEvent) {
			t.Errorf("%+v", r)
		}
	}
	if string(e.buf[:4]) != "abcd" {
		t.Error("immediate data was placed")
	}
}

// Immediate data needs a receive, like a Send.
//
// Source: [RFC 7306 §6], [RFC 5041 §7]
func TestImmediateWithoutReceiveEndsWithTerminate(t *testing.T) {
	_, p := connectRaw(t, CRCOn)
	p.fpdu(frame.UntaggedSegment(frame.OpImmediate, frame.QueueSend, 1, 0, true), make([]byte, 8))
	if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x12, 2, 0xC0, 0}) {
		t.Errorf("Terminate %x", got)
	}
}

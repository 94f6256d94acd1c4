package iwarp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// bindWindow binds a window to n bytes of a side's memory.
func (e *side) bindWindow(off, n int, rights rdma.Flags) (rdma.MemoryWindow, rdma.RemoteAddr) {
	e.t.Helper()
	w, err := e.a.CreateMemoryWindow()
	if err != nil {
		e.t.Fatal(err)
	}
	e.post(rdma.Request{Op: rdma.OpBind, ID: 5, Flags: rights, Window: w, Region: e.mr, Offset: off, Length: n})
	e.want(rdma.OpBind, 5, rdma.StatusSuccess)
	return w, w.RemoteAddr()
}

// When the message is delivered, the window is invalid and its region can be closed. The
// same token again is an error of the peer.
//
// Source: [RFC 5040 §4.7], [RFC 5040 §5.3], [RFC 5042 §6.3]
func TestSendInvalidatesBeforeDelivery(t *testing.T) {
	for _, op := range []frame.Opcode{frame.OpSendInvalidate, frame.OpSendEventInval} {
		e, p := connectRaw(t, CRCOn)
		e.recv(1, 0, 100)
		e.recv(2, 0, 100)
		w, at := e.bindWindow(1000, 50, rdma.FlagAllowWrite)
		p.fpdu(frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true), []byte("data"))
		s := frame.UntaggedSegment(op, frame.QueueSend, 1, 0, true)
		s.STag = uint32(at.Token)
		p.fpdu(s, []byte("hello"))
		r := e.want(rdma.OpReceive, 1, rdma.StatusSuccess)
		if r.Bytes != 5 || r.Solicited != (op == frame.OpSendEventInval) || string(e.buf[1000:1004]) != "data" {
			t.Errorf("%+v", r)
		}
		e.post(rdma.Request{Op: rdma.OpInvalidate, ID: 6, Window: w})
		e.want(rdma.OpInvalidate, 6, rdma.StatusSuccess)
		if err := e.mr.Close(); err != nil {
			t.Error(err)
		}
		s.MSN = 2
		p.fpdu(s, nil)
		want := s.AppendTo([]byte{0x01, 9, 0xC0, 0, 0, 18})
		if got := p.wantTerminate(); !bytes.Equal(got, want) {
			t.Errorf("Terminate %x, want %x", got, want)
		}
		e.want(rdma.OpReceive, 2, rdma.StatusCanceled)
	}
}

// A peer cannot invalidate a region or the window of another connection.
//
// Source: [RFC 5042 §6.3], [RFC 5040 §8.1.1]
func TestPeerCannotInvalidateOthers(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	other, _ := connectRaw(t, CRCOn)
	_, theirs := other.bindWindow(0, 8, rdma.FlagAllowWrite)
	for i, token := range []rdma.RemoteToken{theirs.Token, e.at(0).Token} {
		if i > 0 {
			e, p = connectRaw(t, CRCOn)
			token = e.at(0).Token
		}
		e.recv(1, 0, 8)
		s := frame.UntaggedSegment(frame.OpSendInvalidate, frame.QueueSend, 1, 0, true)
		s.STag = uint32(token)
		p.fpdu(s, nil)
		if got := p.wantTerminate(); !bytes.Equal(got[:4], []byte{0x01, 9, 0xC0, 0}) {
			t.Errorf("Terminate %x", got)
		}
		e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	}
	if err := other.mr.Close(); rdma.StatusOf(err) != rdma.StatusDeviceBusy {
		t.Error("the window of another connection is invalid:", err)
	}
}

// The Terminate for a read of an invalid window is right.
//
// Source: [RFC 5040 §4.8], [ND NdInvalidRead]
func TestReadOfInvalidWindowEndsWithTerminate(t *testing.T) {
	for _, c := range []struct {
		rights rdma.Flags
		code   byte
		change func(e *side, w rdma.MemoryWindow, r *frame.ReadRequest)
	}{
		{rdma.FlagAllowWrite, 2, func(*side, rdma.MemoryWindow, *frame.ReadRequest) {}},
		{rdma.FlagAllowRead, 1, func(_ *side, _ rdma.MemoryWindow, r *frame.ReadRequest) { r.Size++ }},
		{rdma.FlagAllowRead, 0, func(e *side, w rdma.MemoryWindow, _ *frame.ReadRequest) {
			e.post(rdma.Request{Op: rdma.OpInvalidate, ID: 6, Window: w})
			e.want(rdma.OpInvalidate, 6, rdma.StatusSuccess)
		}},
	} {
		e, p := connectReads(t, CRCOff, readyWrite)
		w, at := e.bindWindow(3, 50, c.rights)
		r := frame.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 50, SourceSTag: uint32(at.Token), SourceTO: at.Addr}
		c.change(e, w, &r)
		s := readSegment(1)
		p.fpdu(s, r.AppendTo(nil))
		want := binary.BigEndian.AppendUint16([]byte{0x01, c.code, 0xE0, 0}, 46)
		if got := p.wantTerminate(); !bytes.Equal(got, r.AppendTo(s.AppendTo(want))) {
			t.Errorf("Terminate %x", got)
		}
	}
}

package iwarp

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// flood sends a frame many times. The connection must read all of them.
func (p *rawPeer) flood(frame []byte, n int) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			if _, err := p.nc.Write(frame); err != nil {
				p.t.Errorf("after %d of %d frames: %v", i, n, err)
				return
			}
		}
	})
	return &wg
}

// drain reads frames up to the first one of opcode op, and then the orderly end of the
// stream. It returns the number of frames before it.
func (p *rawPeer) drain(op frame.Opcode) (before int, payload []byte) {
	p.t.Helper()
	for {
		s, b, err := p.receive()
		if err != nil {
			p.t.Fatalf("after %d frames: %v", before, err)
		}
		if s.Opcode() == op {
			if n, err := io.Copy(io.Discard, p.nc); n != 0 || err != nil {
				p.t.Fatalf("%d bytes and %v behind it", n, err)
			}
			return before, b
		}
		before++
	}
}

// Data that the peer has in flight when it breaks a rule does not cause a reset. A reset
// would destroy the Terminate.
//
// Source: [RFC 5040 §4.8], [RFC 5040 §5.4], [RFC 5041 §6.2]
func TestTerminateSurvivesDataInFlight(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		e, p := connectRaw(t, crc)
		p.send(p.frame(frame.TaggedSegment(frame.OpWrite, 2, 0, true), []byte("wrong")))
		at := e.at(0)
		more := p.frame(frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true), make([]byte, 32<<10))
		wg := p.flood(more, 256)
		wg.Wait() // all data is in flight before this side reads any of it
		if _, b := p.drain(frame.OpTerminate); !bytes.Equal(b[:4], []byte{0x11, 0, 0xC0, 0}) {
			t.Errorf("Terminate %x", b)
		}
		p.nc.Close()
		e.wantDone()
	}
}

// Frames that this side has begun to write are completed, and the Terminate follows them.
//
// Source: [RFC 5040 §4.8], [RFC 5040 §5.4]
func TestTerminateFollowsBegunFrames(t *testing.T) {
	e, p := connectRaw(t, CRCOff)
	for i := range 8 {
		big, err := e.a.RegisterMemory(t.Context(), make([]byte, 4<<20), 0)
		if err != nil {
			t.Fatal(err)
		}
		e.post(rdma.Request{Op: rdma.OpWrite, ID: uint64(i), SGL: []rdma.SGE{{Region: big, Length: 4 << 20}}})
	}
	p.fpdu(frame.TaggedSegment(frame.OpWrite, 2, 0, true), []byte("wrong"))
	e.wantDone()
	before, b := p.drain(frame.OpTerminate)
	if before == 0 || before >= 8*65 || !bytes.Equal(b[:4], []byte{0x11, 0, 0xC0, 0}) {
		t.Errorf("%d frames, then Terminate %x", before, b)
	}
	p.nc.Close()
}

// Disconnect sends no Terminate and no reset, also with data of the peer in flight.
//
// Source: [RFC 5040 §6.2], [RFC 5041 §6.2]
func TestDisconnectSendsNoTerminate(t *testing.T) {
	e, p := connectRaw(t, CRCOff)
	e.recv(1, 0, 8)
	at := e.at(0)
	wg := p.flood(p.frame(frame.TaggedSegment(frame.OpWrite, uint32(at.Token), at.Addr, true), make([]byte, 32<<10)), 256)
	left := make(chan error, 1)
	go func() { left <- e.con.Disconnect(t.Context()) }()
	wg.Wait()
	p.wantEnd()
	if err := <-left; err != nil {
		t.Error(err)
	}
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	if rdma.StatusOf(e.con.Err()) != rdma.StatusConnectionInvalid {
		t.Error(e.con.Err())
	}
}

// A Terminate of the peer is read although this side cannot write. It names the error
// even if a reset follows it.
//
// Source: [RFC 5040 §4.8], [RFC 5040 §5.4]
func TestTerminateIsReadDespiteReset(t *testing.T) {
	e, p := connectRaw(t, CRCOff)
	big, err := e.a.RegisterMemory(t.Context(), make([]byte, 16<<20), 0)
	if err != nil {
		t.Fatal(err)
	}
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 1, SGL: []rdma.SGE{{Region: big, Length: 16 << 20}}})
	p.fpdu(frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true), []byte{0x11, 1, 0, 0})
	e.wantDone()
	p.nc.Close() // with unread data: a reset
	e.want(rdma.OpWrite, 1, rdma.StatusAccessViolation)
	if err := e.con.Err(); rdma.StatusOf(err) != rdma.StatusAccessViolation {
		t.Error(err)
	}
}

// Requests that have not begun when this side finds an error are never written, and later
// data is not handled.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7]
func TestNothingIsSentAfterAnError(t *testing.T) {
	e, p := connectRaw(t, CRCOn)
	e.recv(1, 0, 8)
	wrong := p.frame(frame.TaggedSegment(frame.OpWrite, 2, 0, true), []byte("wrong"))
	good := p.frame(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), []byte("good"))
	second := p.frame(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 9, 0, true), []byte("also wrong"))
	p.send(append(append(bytes.Clone(wrong), good...), second...))
	if got := p.wantTerminate(); !bytes.Equal(got[:2], []byte{0x11, 0}) {
		t.Errorf("Terminate %x is not about the first error", got)
	}
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	if n, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}}); n != 0 || rdma.StatusOf(err) != rdma.StatusConnectionInvalid {
		t.Error(n, err)
	}
	if !bytes.Equal(e.buf[:8], make([]byte, 8)) {
		t.Error("a message after the error was placed")
	}
}

// A peer that neither reads nor closes does not delay the end of the connection.
//
// Source: [RFC 5042 §6.4]
func TestSilentPeerDoesNotDelayTheEnd(t *testing.T) {
	e, _ := connectRawTo(t, &Config{DrainTimeout: time.Millisecond})
	if err := e.con.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
	e.con.Close()
}

package iwarp

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A marker that disagrees with the lengths ends the connection.
//
// Source: [RFC 5044 §8]
func TestWrongMarkerEndsTheConnection(t *testing.T) {
	e, p, accepted := serveRaw(t, &Config{CRC: CRCOff, Markers: true}, &frame.Startup{Revision: 1, Markers: true})
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	e.recv(1, 0, 600)
	wire := (&frame.Marker{}).Mark(nil, p.frame(frame.TaggedSegment(frame.OpWrite, 0, 0, true), nil))
	p.send(wire)
	s := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true)
	wire = (&frame.Marker{At: uint64(len(wire))}).Mark(nil, p.frame(s, make([]byte, 600)))
	wire[512-24+3] ^= 4
	p.send(wire)
	got, err := io.ReadAll(p.nc)
	p.nc.Close()
	h := frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true)
	want := (&frame.Marker{}).Mark(nil, frame.AppendFPDU(nil, append(h.AppendTo(nil), 0x20, 3, 0, 0), false))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	var term *TerminateError
	if !errors.As(e.con.Err(), &term) {
		t.Error(e.con.Err())
	}
}

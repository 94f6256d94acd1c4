package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"lwio/rdma"
)

// TestMarkerVectors makes and reads the two frames of the standard's example,
// whose CRCs cover a marker in front and one within.
//
// Source: [RFC 5044 §4.4], [RFC 5044 appendix A]
func TestMarkerVectors(t *testing.T) {
	first := unhex(t, "00000000 002a4143 00000000 00000000 00000001 00000000"+"000000000000000000000000000000000000000000000000"+"52239983")
	second := unhex(t, "002a4143 00000000 00000000 00000002 00000000 00000014"+"000000000000000000000000000000000000000000000000"+"84925898")
	for _, c := range []struct {
		wire []byte
		at   uint64
		msn  uint32
	}{{first, 0, 1}, {second, 512 - 20, 2}} {
		s := untaggedSegment(opSend, queueSend, c.msn, 0, true)
		frame := appendFPDU(nil, append(s.appendTo(nil), make([]byte, 24)...), true)
		w := markedConn{crc: true, sent: c.at}
		if got := w.mark(nil, frame); !bytes.Equal(got, c.wire) {
			t.Errorf("made %x, want %x", got, c.wire)
		}
		for n := range c.wire {
			r := markedConn{crc: true, took: c.at}
			if size, err := r.unmarkOne(c.wire[:n]); size != 0 || err != nil || len(r.clean) != 0 {
				t.Fatal("a part of a frame is taken for a frame:", size, err)
			}
		}
		r := markedConn{crc: true, took: c.at}
		if size, err := r.unmarkOne(c.wire); size != len(c.wire) || err != nil || !bytes.Equal(r.clean, frame) {
			t.Errorf("read %x of %d bytes, %v", r.clean, size, err)
		}
		bad := bytes.Clone(c.wire)
		bad[len(bad)-6] ^= 1
		r = markedConn{crc: true, took: c.at}
		if _, err := r.unmarkOne(bad); err != nil || checkFPDU(r.clean) {
			t.Error("a wrong CRC becomes a right one:", err)
		}
	}
}

// TestMarkersEverywhere makes frames of all sizes at all places of the stream,
// finds the markers where they must be, and reads the frames back.
//
// Source: [RFC 5044 §4.3]
func TestMarkersEverywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, crc := range []bool{false, true} {
		w, r := markedConn{crc: crc}, markedConn{crc: crc}
		var frames, stream []byte
		for range 2000 {
			ulpdu := make([]byte, rng.IntN(1800))
			for i := range ulpdu {
				ulpdu[i] = byte(rng.Uint32())
			}
			frame := appendFPDU(nil, ulpdu, crc)
			frames = append(frames, frame...)
			at := len(stream)
			stream = w.mark(stream, frame)
			for p := (at + markerSpacing - 1) / markerSpacing * markerSpacing; p < len(stream); p += markerSpacing {
				want := uint32(p - at)
				if at%markerSpacing == 0 && want != 0 {
					want -= markerSize
				}
				if got := binary.BigEndian.Uint32(stream[p:]); got != want {
					t.Fatalf("marker at %d of a frame at %d is %d", p, at, got)
				}
			}
		}
		var back []byte
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(3000))
			r.raw, rest = append(r.raw, rest[:n]...), rest[n:]
			if err := r.unmark(); err != nil {
				t.Fatal(err)
			}
			back, r.clean = append(back, r.clean...), r.clean[:0]
		}
		if !bytes.Equal(back, frames) || len(r.raw) != 0 {
			t.Error("the frames differ")
		}
	}
}

// TestWrongMarker: a marker that disagrees with the lengths ends the connection.
//
// Source: [RFC 5044 §8]
func TestWrongMarker(t *testing.T) {
	e, p, accepted := serveRaw(t, &Config{CRC: CRCOff, Markers: true}, &startup{revision: 1, markers: true})
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	e.recv(1, 0, 600)
	wire := (&markedConn{}).mark(nil, p.frame(taggedSegment(opWrite, 0, 0, true), nil))
	p.send(wire)
	s := untaggedSegment(opSend, queueSend, 1, 0, true)
	wire = (&markedConn{sent: uint64(len(wire))}).mark(nil, p.frame(s, make([]byte, 600)))
	wire[512-24+3] ^= 4
	p.send(wire)
	got, err := io.ReadAll(p.nc)
	p.nc.Close()
	h := untaggedSegment(opTerminate, queueTerminate, 1, 0, true)
	want := (&markedConn{}).mark(nil, appendFPDU(nil, append(h.appendTo(nil), 0x20, 3, 0, 0), false))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
	var term *TerminateError
	if !errors.As(e.con.Err(), &term) {
		t.Error(e.con.Err())
	}
}

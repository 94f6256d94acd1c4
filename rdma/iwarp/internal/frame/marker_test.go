package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// The two frames of the standard's example are encoded and decoded. Their CRCs cover a
// marker before the frame and a marker within it.
//
// Source: [RFC 5044 §4.4]
func TestMarkerVectors(t *testing.T) {
	first := unhex(t, "00000000 002a4143 00000000 00000000 00000001 00000000"+"000000000000000000000000000000000000000000000000"+"52239983")
	second := unhex(t, "002a4143 00000000 00000000 00000002 00000000 00000014"+"000000000000000000000000000000000000000000000000"+"84925898")
	for _, c := range []struct {
		wire []byte
		At   uint64
		MSN  uint32
	}{{first, 0, 1}, {second, 512 - 20, 2}} {
		s := UntaggedSegment(OpSend, QueueSend, c.MSN, 0, true)
		frame := AppendFPDU(nil, append(s.AppendTo(nil), make([]byte, 24)...), true)
		w := Marker{CRC: true, At: c.At}
		if got := w.Mark(nil, frame); !bytes.Equal(got, c.wire) {
			t.Errorf("made %x, want %x", got, c.wire)
		}
		for n := range c.wire {
			r := Marker{CRC: true, At: c.At}
			if clean, size, err := r.Unmark(nil, c.wire[:n]); size != 0 || err != nil || len(clean) != 0 {
				t.Fatal("a part of a frame is taken for a frame:", size, err)
			}
		}
		r := Marker{CRC: true, At: c.At}
		if clean, size, err := r.Unmark(nil, c.wire); size != len(c.wire) || err != nil || !bytes.Equal(clean, frame) {
			t.Errorf("read %x of %d bytes, %v", clean, size, err)
		}
		bad := bytes.Clone(c.wire)
		bad[len(bad)-6] ^= 1
		r = Marker{CRC: true, At: c.At}
		if clean, _, err := r.Unmark(nil, bad); err != nil || CheckFPDU(clean) {
			t.Error("a wrong CRC becomes a right one:", err)
		}
	}
}

// Frames of all sizes at all offsets of the stream have markers at the right offsets, and
// are decoded again.
//
// Source: [RFC 5044 §4.3]
func TestMarkersAtEveryOffset(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, crc := range []bool{false, true} {
		w, r := Marker{CRC: crc}, Marker{CRC: crc}
		var frames, stream []byte
		for range 2000 {
			ulpdu := make([]byte, rng.IntN(1800))
			for i := range ulpdu {
				ulpdu[i] = byte(rng.Uint32())
			}
			frame := AppendFPDU(nil, ulpdu, crc)
			frames = append(frames, frame...)
			at := len(stream)
			stream = w.Mark(stream, frame)
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
		var back, raw []byte
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(3000))
			raw, rest = append(raw, rest[:n]...), rest[n:]
			for size := -1; size != 0; raw = raw[size:] {
				var err error
				if back, size, err = r.Unmark(back, raw); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !bytes.Equal(back, frames) || len(raw) != 0 {
			t.Error("the frames differ")
		}
	}
}

// A frame whose marker does not point to its beginning is refused, whichever of its markers that
// is, and with a right CRC too.
//
// Source: [RFC 5044 §4.3], [RFC 5044 §8]
func TestMarkerThatPointsElsewhereIsRefused(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, start := range []uint64{0, 100, markerSpacing - markerSize} {
			w := Marker{CRC: crc, At: start}
			stream := w.Mark(nil, AppendFPDU(nil, make([]byte, 3*markerSpacing), crc))
			markers := 0
			for at := int((markerSpacing - start) % markerSpacing); at < len(stream); at += markerSpacing {
				markers++
				for _, wrong := range []uint16{1, ^uint16(0)} {
					bad := bytes.Clone(stream)
					pointer := bad[at+markerSize-2:]
					binary.BigEndian.PutUint16(pointer, binary.BigEndian.Uint16(pointer)+wrong)
					if crc {
						bad = appendCRC(bad[:len(bad)-CRCSize], UpdateCRC(0, bad[:len(bad)-CRCSize]))
					}
					r := Marker{CRC: crc, At: start}
					if clean, size, err := r.Unmark(nil, bad); !errors.Is(err, errMarker) || size != 0 || len(clean) != 0 {
						t.Errorf("CRC %t, frame at %d, marker %d: %d bytes used, %v", crc, start, at, size, err)
					}
				}
			}
			if markers < 3 {
				t.Errorf("a frame at %d has %d markers", start, markers)
			}
		}
	}
}

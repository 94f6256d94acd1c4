package frame

import (
	"bytes"
	"testing"
)

// Source: [RFC 5044 §7.1]
func FuzzStartup(f *testing.F) {
	for _, c := range capturedFrames(f) {
		if bytes.HasPrefix(c.wire, []byte("MPA")) {
			f.Add(c.wire, true)
			f.Add(c.wire, false)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		s, err := DecodeStartup(b, reply)
		if err != nil {
			return
		}
		again := s.AppendTo(nil)
		b[16] &= mpaMarkers | mpaCRC | mpaReject | mpaEnhanced
		if s.Revision < 2 {
			b[16] &^= mpaEnhanced
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x encodes again as %x", b, again)
		}
	})
}

// Source: [RFC 5044 §4], [RFC 5041 §4], [RFC 5040 §4]
func FuzzFPDU(f *testing.F) {
	for i, c := range capturedFrames(f) {
		if i%8 == 0 && len(c.wire) < 4096 {
			f.Add(c.wire, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, crc bool) {
		ulpdu, rest, err := decodeFPDU(b, crc)
		if err != nil {
			return
		}
		if len(ulpdu)+len(rest) > len(b) {
			t.Fatal("more out than in")
		}
		s, err := decodeSegment(ulpdu)
		if err != nil {
			return
		}
		payload := ulpdu[s.Size():]
		if again := append(s.AppendTo(nil), payload...); !bytes.Equal(again, ulpdu) {
			t.Errorf("%x encodes again as %x", ulpdu, again)
		}
		if r, err := DecodeReadRequest(payload); err == nil && !bytes.Equal(r.AppendTo(nil), payload) {
			t.Error("read request differs")
		}
		if r, err := DecodeAtomicRequest(payload); err == nil {
			payload[0], payload[1], payload[2] = 0, 0, 0
			if payload[3] &= 0x0F; !bytes.Equal(r.AppendTo(nil), payload) {
				t.Error("atomic request differs")
			}
		}
		if r, err := DecodeAtomicResponse(payload); err == nil && !bytes.Equal(r.AppendTo(nil), payload) {
			t.Error("atomic response differs")
		}
		if term, err := DecodeTerminate(payload); err == nil {
			_ = term.Fault.String()
			if back, err := DecodeTerminate(term.AppendTo(nil)); err != nil || back.Control != term.Control {
				t.Errorf("%+v became %+v: %v", term, back, err)
			}
		}
	})
}

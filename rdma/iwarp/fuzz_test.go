package iwarp

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
		s, err := decodeStartup(b, reply)
		if err != nil {
			return
		}
		again := s.appendTo(nil)
		b[16] &= mpaMarkers | mpaCRC | mpaReject | mpaEnhanced
		if s.revision < 2 {
			b[16] &^= mpaEnhanced
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x made again as %x", b, again)
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
		payload := ulpdu[s.size():]
		if again := append(s.appendTo(nil), payload...); !bytes.Equal(again, ulpdu) {
			t.Errorf("%x made again as %x", ulpdu, again)
		}
		if r, err := decodeReadRequest(payload); err == nil && !bytes.Equal(r.appendTo(nil), payload) {
			t.Error("read request differs")
		}
		if r, err := decodeAtomicResponse(payload); err == nil && !bytes.Equal(r.appendTo(nil), payload) {
			t.Error("atomic response differs")
		}
		if term, err := decodeTerminate(payload); err == nil {
			_ = term.fault.String()
			if back, err := decodeTerminate(term.appendTo(nil)); err != nil || back.control != term.control {
				t.Errorf("%+v became %+v: %v", term, back, err)
			}
		}
	})
}

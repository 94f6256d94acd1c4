package wire

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// startRows are the bytes of a ConnectionStart with the nonce F1 00 … 00 F2.
var startRows = []row{
	{"Magic", "4c57494f"},
	{"RevId", "0110"},
	{"Reserved", "0000"},
	{"Nonce", "f1" + zeros14 + "f2"},
}

// Source: [OP-102], [OP-46c]
func TestConnectionStartMatchesGoldenBytes(t *testing.T) {
	s := ConnectionStart{Nonce: [16]byte{0: 0xF1, 15: 0xF2}}
	private := golden(t, startRows...)
	if len(private) != ConnectionStartSize {
		t.Fatalf("%d bytes", len(private))
	}
	same(t, s.AppendTo(nil), private)
	for _, padding := range []int{0, 1, 172} {
		got, ok := DecodeConnectionStart(append(bytes.Clone(private), make([]byte, padding)...))
		if !ok || got != s {
			t.Errorf("with %d zeros: %+v, %v", padding, got, ok)
		}
	}
	if binding := s.Binding("iwarp"); hex.EncodeToString(binding[:]) != bindingVector {
		t.Errorf("binding %x", binding)
	}
	if s.Binding("iwarp") == s.Binding("shm") {
		t.Error("two fabrics have one binding")
	}
}

// Private data of another kind is no start of a connection, and no error.
//
// Source: [OP-102]
func TestForeignPrivateDataHasNoNonce(t *testing.T) {
	private := golden(t, startRows...)
	for n := range private {
		if _, ok := DecodeConnectionStart(private[:n]); ok {
			t.Errorf("the first %d bytes are taken", n)
		}
	}
	for at := range 6 {
		b := bytes.Clone(private)
		b[at] ^= 1
		if _, ok := DecodeConnectionStart(b); ok {
			t.Errorf("another byte %d is taken", at)
		}
	}
}

// DecodeConnectionStart accepts any private data without a panic. A decoded message is encoded
// again to the same bytes, except for the reserved ones.
func FuzzConnectionStart(f *testing.F) {
	f.Add([]byte{})
	f.Add((&ConnectionStart{Nonce: [16]byte{1, 2, 3}}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := DecodeConnectionStart(b)
		if again := s.AppendTo(nil); ok && (!bytes.Equal(again[:6], b[:6]) || !bytes.Equal(again[8:], b[8:ConnectionStartSize])) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

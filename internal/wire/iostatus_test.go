package wire

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §I/O Processing], [LWIO §Connection Authentication]
func TestIOStatusBlockGolden(t *testing.T) {
	s := IOStatusBlock{Information: 0x11121314, Status: 0xC0000011}
	b := golden(t, row{"Information", "14131211"}, row{"Status", "110000c0"})
	same(t, s.AppendTo(nil), b)
	got, err := DecodeIOStatusBlock(b)
	if err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	decode := func(b []byte) error { _, err := DecodeIOStatusBlock(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
}

// Source: [OP-89], [OP-90]
func TestPendingBlock(t *testing.T) {
	b := golden(t, row{"Information", "ffffffff"}, row{"Status", "03010000"})
	same(t, PendingBlock().AppendTo(nil), b)
	if !PendingBlock().Pending() || (IOStatusBlock{}).Pending() || (IOStatusBlock{Information: 0xFFFFFFFF}).Pending() {
		t.Error("what is pending and what is not are confused")
	}
}

// The word is the one that lies in memory where the bytes of the block do.
//
// Source: [OP-89]
func TestIOStatusBlockWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := IOStatusBlock{Information: rapid.Uint32().Draw(t, "information"), Status: rapid.Uint32().Draw(t, "status")}
		memory := make([]byte, 8)
		binary.NativeEndian.PutUint64(memory, s.Uint64())
		same(t, memory, s.AppendTo(nil))
		if got := IOStatusBlockFromUint64(s.Uint64()); got != s {
			t.Fatalf("%+v", got)
		}
		if got, err := DecodeIOStatusBlock(memory); err != nil || got != s {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

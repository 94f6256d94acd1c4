package wire

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §I/O Processing], [LWIO §Connection Authentication]
func TestIOStatusBlockMatchesGoldenBytes(t *testing.T) {
	s := IOStatusBlock{Information: 0x11121314, Status: 0xC0000011}
	b := golden(t, row{"Information", "14131211"}, row{"Status", "110000c0"})
	same(t, s.AppendTo(nil), b)
	if got := IOStatusBlockFromUint64(binary.NativeEndian.Uint64(b)); got != s {
		t.Errorf("%+v", got)
	}
}

// Source: [OP-89], [OP-90]
func TestPendingBlockIsPending(t *testing.T) {
	b := golden(t, row{"Information", "ffffffff"}, row{"Status", "03010000"})
	same(t, PendingBlock().AppendTo(nil), b)
	if !PendingBlock().Pending() || (IOStatusBlock{}).Pending() || (IOStatusBlock{Information: 0xFFFFFFFF}).Pending() {
		t.Error("Pending is wrong")
	}
}

// The word in memory has the bytes of the block.
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
	})
}

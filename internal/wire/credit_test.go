package wire

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §Credits], [OP-26], [OP-70]
func TestCreditGolden(t *testing.T) {
	for _, c := range []struct {
		n      int32
		offset string
	}{
		{0, "0000000000000000"},
		{2, "0000000002000000"},
		{-1, "00000000ffffffff"},
		{-3, "00000000fdffffff"},
	} {
		b := golden(t,
			row{"Length", "30000000"},
			row{"Opcode", "08"},
			row{"Flags", "80"},
			row{"Credits", "07"},
			row{"Marker", "ff"},
			row{"Fid", "0000"},
			row{"Sequence", "0201"},
			row{"Tid", "00000000"},
			row{"Offset", c.offset},
			row{"DataVa", "0000000000000000"},
			row{"DataMh", "00000000"},
			row{"ImmediateCookie", "00000000"},
			row{"Cookie", "0500000000000000"},
		)
		h := NewCredit(5, c.n)
		h.SetPending(7)
		h.Sequence = 0x0102
		same(t, h.AppendTo(nil), b)
		if got := CreditCount(h.Offset); got != c.n {
			t.Errorf("%d instead of %d", got, c.n)
		}
		want(t, h.Check(HeaderSize, depicted), fine)
	}
}

// Source: [OP-70]
func TestCreditOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32().Draw(t, "n")
		low := rapid.Uint32().Draw(t, "low")
		offset := CreditOffset(n)
		if uint32(offset) != 0 || CreditCount(offset) != n || CreditCount(offset|uint64(low)) != n {
			t.Fatalf("%d is %#x", n, offset)
		}
	})
}

// Source: [LWIO §Credits], [LWIO claim 24], [OP-67]
func TestCreditStatus(t *testing.T) {
	for n, want := range map[int32]uint32{0: 0, 4: 0, -1: 1, -9: 1, math.MinInt32: 1} {
		if got := CreditStatus(n); got != want {
			t.Errorf("%d: %d instead of %d", n, got, want)
		}
	}
}

// Source: [OP-27], [OP-92h], [OP-106]
func TestCreditCheck(t *testing.T) { runChecks(t, NewCredit(5, -1), controlChecks(HeaderSize)) }

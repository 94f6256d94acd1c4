package wire

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §Credits], [OP-26], [OP-70]
func TestCreditMatchesGoldenBytes(t *testing.T) {
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
		h := NewCredit(c.n)
		h.CompleteBySend(5, 9)
		h.SetPending(7)
		h.Sequence = 0x0102
		same(t, h.AppendTo(nil), b)
		if got := h.CreditCount(); got != c.n {
			t.Errorf("%d instead of %d", got, c.n)
		}
		want(t, h.Check(HeaderSize, depicted), fine)
	}
}

// The lower half of Offset is 0 and ignored. Source: [OP-70]
func TestCreditCountIgnoresLowerHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32().Draw(t, "n")
		h := NewCredit(n)
		if uint32(h.Offset) != 0 || h.CreditCount() != n {
			t.Fatalf("%d is %#x", n, h.Offset)
		}
		if h.Offset |= uint64(rapid.Uint32().Draw(t, "low")); h.CreditCount() != n {
			t.Fatalf("%d is %#x", n, h.Offset)
		}
	})
}

// A delta credit message is a status response with cookie 0, as the server builds it.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-29], [OP-73]
func TestDeltaCreditMatchesGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		n   int32
		hex string
	}{{3, "03000000"}, {-3, "fdffffff"}, {math.MaxInt32, "ffffff7f"}, {math.MinInt32, "00000080"}} {
		b := golden(t,
			row{"Cookie", "0000000000000000"},
			row{"Information", c.hex},
			row{"Status", "01000000"},
		)
		r := StatusResponse{Information: uint32(c.n), Status: NotifyCredit}
		same(t, r.AppendTo(nil), b)
		if got, err := DecodeStatusResponse(b); err != nil || got != r {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// Source: [LWIO §Credits], [LWIO claim 24], [OP-67]
func TestCreditStatusIsZeroForAGrant(t *testing.T) {
	for n, want := range map[int32]uint32{0: 0, 4: 0, -1: 1, -9: 1, math.MinInt32: 1} {
		if got := CreditStatus(n); got != want {
			t.Errorf("%d: %d instead of %d", n, got, want)
		}
	}
}

// Source: [OP-27], [OP-92h], [OP-106]
func TestCreditCheckRefusesInvalidMessages(t *testing.T) {
	runChecks(t, NewCredit(-1), controlChecks(HeaderSize))
}

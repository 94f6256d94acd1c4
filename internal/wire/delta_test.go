package wire

import (
	"math"
	"testing"

	"lwio/internal/ntstatus"
)

// Source: [LWIO §Credits], [LWIO claim 24], [OP-29], [OP-73]
func TestDeltaGolden(t *testing.T) {
	for _, c := range []struct {
		n   int32
		hex string
	}{{3, "03000000"}, {-3, "fdffffff"}, {math.MaxInt32, "ffffff7f"}, {math.MinInt32, "00000080"}} {
		b := golden(t,
			row{"Cookie", "0000000000000000"},
			row{"Information", c.hex},
			row{"Status", "01000000"},
		)
		same(t, DeltaCredit(c.n).AppendTo(nil), b)
		r, err := DecodeStatusResponse(b)
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := r.Delta(); !ok || n != c.n {
			t.Errorf("%d, %v instead of %d", n, ok, c.n)
		}
	}
}

// Status 1 with a cookie answers a CREDIT message. Source: [OP-73]
func TestDeltaNot(t *testing.T) {
	for _, r := range []StatusResponse{
		{Cookie: 1, Status: NotifyCredit, Information: 5},
		{Cookie: 1}, {Cookie: 0, Status: 0}, {Cookie: 0, Status: uint32(ntstatus.DeviceBusy)},
	} {
		if _, ok := r.Delta(); ok {
			t.Errorf("%+v changes the credits", r)
		}
	}
}

// Source: [OP-69], [OP-72], [OP-73]
func TestCheckDelta(t *testing.T) {
	for _, c := range []struct {
		r     StatusResponse
		grant int
		want  outcome
	}{
		{DeltaCredit(1), 1, fine},
		{DeltaCredit(0), 1, fine},
		{DeltaCredit(-3), 4, fine},
		{DeltaCredit(-4), 4, ended},
		{DeltaCredit(-5), 4, ended},
		{DeltaCredit(math.MinInt32), 4, ended},
		{DeltaCredit(math.MaxInt32), 65535, fine},
		{StatusResponse{Information: 1}, 4, ended},
		{StatusResponse{Cookie: 9, Information: 1, Status: NotifyCredit}, 4, ended},
	} {
		want(t, c.r.CheckDelta(c.grant), c.want)
	}
}

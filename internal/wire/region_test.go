package wire

import (
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §Vectored Read], [OP-18], [OP-19]
func TestRDMARegionMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"DataVa", "5857565554535251"},
		row{"DataMh", "64636261"},
		row{"Length", "00100000"},
	)
	same(t, target.AppendTo(nil), b)
	if got := RegionAt(append(make([]byte, RDMARegionSize), b...), 1); got != target {
		t.Errorf("%+v", got)
	}
}

func TestRDMARegionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), RDMARegionSize, RDMARegionSize).Draw(t, "bytes")
		same(t, RegionAt(b, 0).AppendTo(nil), b)
	})
}

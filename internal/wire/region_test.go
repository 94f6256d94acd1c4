package wire

import (
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §Vectored Read], [OP-18], [OP-19]
func TestRDMARegionGolden(t *testing.T) {
	b := golden(t,
		row{"DataVa", "5857565554535251"},
		row{"DataMh", "64636261"},
		row{"Length", "00100000"},
	)
	same(t, target.AppendTo(nil), b)
	got, err := DecodeRDMARegion(b)
	if err != nil || got != target {
		t.Errorf("%+v, %v", got, err)
	}
	decode := func(b []byte) error { _, err := DecodeRDMARegion(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
}

func TestRDMARegionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), RDMARegionSize, RDMARegionSize).Draw(t, "bytes")
		r, err := DecodeRDMARegion(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, r.AppendTo(nil), b)
	})
}

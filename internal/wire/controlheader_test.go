package wire

import "testing"

// Source: [LWIO §Network Discovery], [OP-5], [OP-12], [OP-14], [OP-15]
func TestControlHeaderMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"ProtocolId", "4c57494f"},
		row{"RevId", "01100000"},
		row{"Opcode", "fe00"},
		row{"Length", "2002"},
	)
	h := controlHeader{RevID: RevID, Opcode: opNegotiate, Length: 0x220}
	same(t, h.AppendTo(nil), b)
	got, err := decodeControlHeader(b)
	if err != nil || got != h || len(b) != controlHeaderSize {
		t.Errorf("%+v, %v", got, err)
	}
	refusesPrefixes(t, b, func(b []byte) error { _, err := decodeControlHeader(b); return err })
	for i := range 4 {
		bad := h.AppendTo(nil)
		bad[i]++
		_, err := decodeControlHeader(bad)
		want(t, err, ended)
	}
}

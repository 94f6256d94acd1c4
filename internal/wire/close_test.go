package wire

import "testing"

// Source: [LWIO §Close], [OP-26]
func TestCloseMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"Length", "30000000"},
		row{"Opcode", "04"},
		row{"Flags", "80"},
		row{"Credits", "03"},
		row{"Marker", "ff"},
		row{"Fid", "3412"},
		row{"Sequence", "0600"},
		row{"Tid", "00000000"},
		row{"Offset", "0000000000000000"},
		row{"DataVa", "0000000000000000"},
		row{"DataMh", "00000000"},
		row{"ImmediateCookie", "00000000"},
		row{"Cookie", "efcdab8967452301"},
	)
	h := NewClose(0x1234)
	h.CompleteBySend(0x0123456789ABCDEF, 9)
	h.SetPending(3)
	h.Sequence = 6
	same(t, h.AppendTo(nil), b)
}

// Source: [LWIO §Close], [OP-27], [OP-92h], [OP-106]
func TestCloseCheckRefusesInvalidMessages(t *testing.T) {
	runChecks(t, NewClose(2), controlChecks(HeaderSize))
}

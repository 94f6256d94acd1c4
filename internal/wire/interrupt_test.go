package wire

import "testing"

// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-2], [OP-26], [OP-93a]
func TestInterruptMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"Length", "30000000"},
		row{"Opcode", "09"},
		row{"Flags", "c0"},
		row{"Credits", "0c"},
		row{"Marker", "ff"},
		row{"Fid", "0000"},
		row{"Sequence", "ff00"},
		row{"Tid", "00000000"},
		row{"Offset", "0000000000000000"},
		row{"DataVa", "0000000000000000"},
		row{"DataMh", "00000000"},
		row{"ImmediateCookie", "00000000"},
		row{"Cookie", "efcdab8967452301"},
	)
	h := NewInterrupt(12)
	h.CompleteBySend(0x0123456789ABCDEF, 9)
	h.Sequence = 0xFF
	same(t, h.AppendTo(nil), b)
	if many := NewInterrupt(300); many.Credits != 255 {
		t.Errorf("300 outstanding are %d", many.Credits)
	}
}

// Source: [LWIO §Wakeup], [OP-27], [OP-92h], [OP-106]
func TestInterruptCheckRefusesInvalidMessages(t *testing.T) {
	runChecks(t, NewInterrupt(2), controlChecks(HeaderSize))
}

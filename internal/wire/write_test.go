package wire

import (
	"math"
	"testing"
)

// Source: [LWIO §Write], [LWIO claim 2], [LWIO claim 16], [LWIO claim 18], [OP-24], [OP-26], [OP-96]
func TestWriteMatchesGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		how  completion
		rows [3]row
	}{
		{"interrupt", sent, [3]row{{"Flags", "80"}, {"ImmediateCookie", "00000000"}, {"Cookie", "efcdab8967452301"}}},
		{"polling", polled, [3]row{{"Flags", "00"}, {"IosMh", "34333231"}, {"IosVa", "4847464544434241"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := golden(t,
				row{"Length", "05000000"},
				row{"Opcode", "01"},
				c.rows[0],
				row{"Credits", "01"},
				row{"Marker", "ff"},
				row{"Fid", "3412"},
				row{"Sequence", "0100"},
				row{"Tid", "00000000"},
				row{"Offset", "0020000001000000"},
				row{"DataVa", "0000000000000000"},
				row{"DataMh", "00000000"},
				c.rows[1], c.rows[2],
				row{"data", "68656c6c6f"},
			)
			h := by(NewWrite(0x1234, 0x100002000, 5), c.how)
			h.SetPending(1)
			h.Sequence = 1
			same(t, append(h.AppendTo(nil), "hello"...), b)
		})
	}
}

// writeChecks are the checks of the length of a WRITE or a VEC_WRITE.
//
// Source: [LWIO §Write], [OP-27], [OP-61], [OP-63], [OP-92b]
func writeChecks() []checkCase {
	length := func(n uint32) func(*Header) { return func(h *Header) { h.Length = n } }
	limit := depicted.MaxRecvBufferSize
	return []checkCase{
		{"nothing", length(0), HeaderSize, fine},
		{"as much as the server takes", length(limit), HeaderSize + int(limit), fine},
		{"a byte more", length(limit + 1), HeaderSize + int(limit) + 1, ended},
		{"a byte more announced", length(limit + 1), HeaderSize + int(limit), ended},
		{"less data than announced", length(101), HeaderSize + 100, ended},
		{"more data than announced", length(99), HeaderSize + 100, ended},
		{"2^32 - 1 announced", length(math.MaxUint32), HeaderSize + 100, ended},
	}
}

func TestWriteCheckRefusesInvalidMessages(t *testing.T) {
	checks := append(ioChecks(HeaderSize+100), writeChecks()...)
	runChecks(t, by(NewWrite(1, 4096, 100), sent), append(checks,
		checkCase{"collapsed", func(h *Header) { h.Flags |= FlagCollapse }, HeaderSize + 100, invalid}))
}

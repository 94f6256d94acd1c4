package wire

import (
	"math"
	"testing"

	"lwio/internal/ntstatus"
)

var (
	// sent and polled are the two ways of completion.
	sent   = completion{cookie: 0x0123456789ABCDEF, immediate: 0x21222324}
	polled = completion{polling: true, iosMh: 0x31323334, iosVa: 0x4142434445464748}
	// target is 4 KiB of a client's memory.
	target = RDMARegion{DataVa: 0x5152535455565758, DataMh: 0x61626364, Length: 4096}
)

// Source: [LWIO §Read], [LWIO claim 2], [LWIO claim 18], [LWIO claim 19], [OP-24], [OP-26]
func TestReadMatchesGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		how  completion
		rows [3]row
	}{
		{"interrupt", sent, [3]row{{"Flags", "80"}, {"ImmediateCookie", "24232221"}, {"Cookie", "efcdab8967452301"}}},
		{"polling", polled, [3]row{{"Flags", "00"}, {"IosMh", "34333231"}, {"IosVa", "4847464544434241"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := golden(t,
				row{"Length", "00100000"},
				row{"Opcode", "00"},
				c.rows[0],
				row{"Credits", "02"},
				row{"Marker", "ff"},
				row{"Fid", "3412"},
				row{"Sequence", "0100"},
				row{"Tid", "00000000"},
				row{"Offset", "0020000001000000"},
				row{"DataVa", "5857565554535251"},
				row{"DataMh", "64636261"},
				c.rows[1], c.rows[2],
			)
			h := by(NewRead(0x1234, 0x100002000, target), c.how)
			h.SetPending(2)
			h.Sequence = 1
			same(t, h.AppendTo(nil), b)
			if h.Interrupt() == c.how.polling {
				t.Error("polling and interrupt are the same")
			}
		})
	}
}

// ioChecks are the checks of flags and offsets that messages of I/O of size bytes
// have in common. Their Length must not be 0.
//
// Source: [OP-92c], [OP-92h], [OP-106]
func ioChecks(size int) []checkCase {
	return []checkCase{
		{"as it is", nil, size, fine},
		{"polling", func(h *Header) { h.Flags &^= FlagInterrupt }, size, fine},
		{"CONTROL is ignored", func(h *Header) { h.Flags |= FlagControl }, size, fine},
		{"any marker", func(h *Header) { h.Marker = 0 }, size, fine},
		{"unknown flag", func(h *Header) { h.Flags |= 0x10 }, size, invalid},
		{"unknown flag, polling", func(h *Header) { h.Flags = 0x01 | h.Flags&FlagCollapse }, size, invalid},
		{"cut off", nil, size - 1, ended},
		{"too long", nil, size + 1, ended},
		{"no message at all", nil, 0, ended},
		{"last byte of the largest file", func(h *Header) { h.Offset = math.MaxInt64 - uint64(h.Length) }, size, fine},
		{"one byte more", func(h *Header) { h.Offset = math.MaxInt64 - uint64(h.Length) + 1 }, size, invalid},
		{"negative offset", func(h *Header) { h.Offset = 1 << 63 }, size, invalid},
		{"end of file marker", func(h *Header) { h.Offset = math.MaxUint64 }, size, invalid},
	}
}

// Source: [LWIO §Read], [OP-27], [OP-60], [OP-63], [OP-92b]
func TestReadCheckRefusesInvalidMessages(t *testing.T) {
	length := func(n uint32) func(*Header) { return func(h *Header) { h.Length = n } }
	runChecks(t, by(NewRead(1, 4096, target), sent), append(ioChecks(HeaderSize),
		checkCase{"nothing", length(0), HeaderSize, fine},
		checkCase{"a window", length(depicted.MaxRdmaWindowSize), HeaderSize, fine},
		checkCase{"a byte more", length(depicted.MaxRdmaWindowSize + 1), HeaderSize, invalid},
		checkCase{"all that can be asked for", length(math.MaxUint32), HeaderSize, invalid},
		checkCase{"collapsed", func(h *Header) { h.Flags |= FlagCollapse }, HeaderSize, invalid},
		checkCase{"with a body", nil, HeaderSize + 16, ended},
	))
}

// A READ of more than a window is refused with a status.
func TestReadAboveWindowIsInvalidParameter(t *testing.T) {
	h := by(NewRead(1, 0, RDMARegion{Length: 1 << 20}), sent)
	err := h.Check(HeaderSize, depicted)
	if ntstatus.Of(err) != ntstatus.InvalidParameter {
		t.Errorf("%v is %v", err, ntstatus.Of(err))
	}
}

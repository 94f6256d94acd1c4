package wire

import (
	"testing"

	"pgregory.net/rapid"
)

var fidParams = FIDParams{
	ResumeKey:          [24]byte{0: 1, 7: 2, 8: 3, 15: 4, 16: 5, 23: 6},
	SessionID:          [8]byte{1, 2, 3, 4, 5, 6, 7, 8},
	FlagsAndAttributes: 0x11121308,
}

// Source: [LWIO §File Registration], [LWIO claim 10], [LWIO claim 11], [OP-11], [OP-26]
func TestRegisterMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"Length", "54000000"},
		row{"Opcode", "07"},
		row{"Flags", "80"},
		row{"Credits", "02"},
		row{"Marker", "ff"},
		row{"Fid", "0000"},
		row{"Sequence", "0100"},
		row{"Tid", "00000000"},
		row{"Offset", "0000000000000000"},
		row{"DataVa", "0000000000000000"},
		row{"DataMh", "00000000"},
		row{"ImmediateCookie", "00000000"},
		row{"Cookie", "efcdab8967452301"},
		row{"ResumeKey", "0100000000000002"},
		row{"Timestamp", "0300000000000004"},
		row{"Pid", "0500000000000006"},
		row{"SessionId", "0102030405060708"},
		row{"FlagsAndAttributes", "08131211"},
	)
	if len(b) != 84 {
		t.Fatalf("%d bytes", len(b))
	}
	h := NewRegister()
	h.CompleteBySend(0x0123456789ABCDEF, 9)
	h.SetPending(2)
	h.Sequence = 1
	same(t, fidParams.AppendTo(h.AppendTo(nil)), b)
	got, err := DecodeFIDParams(b[HeaderSize:])
	if err != nil || got != fidParams {
		t.Errorf("%+v, %v", got, err)
	}
	decode := func(b []byte) error { _, err := DecodeFIDParams(b); return err }
	refusesPrefixes(t, b[HeaderSize:], decode)
	refusesMore(t, b[HeaderSize:], decode)
}

// Source: [LWIO §File Registration], [OP-27], [OP-92h], [OP-106]
func TestRegisterCheckRefusesInvalidMessages(t *testing.T) {
	runChecks(t, NewRegister(), append(controlChecks(HeaderSize+FIDParamsSize),
		checkCase{"without body", func(h *Header) { h.Length = HeaderSize }, HeaderSize, ended}))
}

// Source: [LWIO §File Registration], [OP-29], [OP-54]
func TestRegisteredFidHas16Bits(t *testing.T) {
	for _, c := range []struct {
		information uint32
		fid         uint16
		want        outcome
	}{{0, 0, ended}, {1, 1, fine}, {0xFFFF, 0xFFFF, fine}, {0x10000, 0, ended}, {0x10001, 0, ended}} {
		fid, err := RegisteredFid(c.information)
		want(t, err, c.want)
		if fid != c.fid {
			t.Errorf("%#x is file id %d", c.information, fid)
		}
	}
}

func TestFIDParamsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), FIDParamsSize, FIDParamsSize).Draw(t, "bytes")
		p, err := DecodeFIDParams(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, p.AppendTo(nil), b)
	})
}

func FuzzFIDParams(f *testing.F) {
	f.Add(fidParams.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeFIDParams(b)
		if (err == nil) != (len(b) == FIDParamsSize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err == nil {
			same(t, p.AppendTo(nil), b)
		}
	})
}

package wire

import (
	"testing"

	"pgregory.net/rapid"
)

// headerCases are headers with every field set, one for each choice of arms.
func headerCases() []struct {
	name string
	h    Header
	rows []row
} {
	common := Header{
		Length: 0x11121314, Credits: 0x15, Marker: 0x16, Fid: 0x1718, Sequence: 0x191A, Tid: 0x1B1C1D1E,
		Offset: 0x2122232425262728, DataVa: 0x3132333435363738,
	}
	build := func(op Opcode, flags uint8, set func(*Header)) Header {
		h := common
		h.Opcode, h.Flags = op, flags
		set(&h)
		return h
	}
	rows := func(opcode, flags string, arms ...row) []row {
		return append([]row{
			{"Length", "14131211"},
			{"Opcode", opcode},
			{"Flags", flags},
			{"Credits", "15"},
			{"Marker", "16"},
			{"Fid", "1817"},
			{"Sequence", "1a19"},
			{"Tid", "1e1d1c1b"},
			{"Offset", "2827262524232221"},
			{"DataVa", "3837363534333231"},
		}, arms...)
	}
	return []struct {
		name string
		h    Header
		rows []row
	}{
		{"DataMh and Cookie", build(OpRead, 0x80, func(h *Header) {
			h.DataMh, h.ImmediateCookie, h.Cookie = 0x41424344, 0x45464748, 0x5152535455565758
		}), rows("00", "80", row{"DataMh", "44434241"}, row{"ImmediateCookie", "48474645"}, row{"Cookie", "5857565554535251"})},
		{"DataMh and IosVa", build(OpRead, 0x00, func(h *Header) {
			h.DataMh, h.IosMh, h.IosVa = 0x41424344, 0x45464748, 0x5152535455565758
		}), rows("00", "00", row{"DataMh", "44434241"}, row{"IosMh", "48474645"}, row{"IosVa", "5857565554535251"})},
		{"NumPages and Cookie", build(OpVecRead, 0xC0, func(h *Header) {
			h.NumPages, h.PageSize, h.ImmediateCookie, h.Cookie = 0x4142, 0x4344, 0x45464748, 0x5152535455565758
		}), rows("02", "c0", row{"NumPages", "4241"}, row{"PageSize", "4443"}, row{"ImmediateCookie", "48474645"}, row{"Cookie", "5857565554535251"})},
		{"NumPages and IosVa", build(OpVecWrite, 0x20, func(h *Header) {
			h.NumPages, h.PageSize, h.IosMh, h.IosVa = 0x4142, 0x4344, 0x45464748, 0x5152535455565758
		}), rows("03", "20", row{"NumPages", "4241"}, row{"PageSize", "4443"}, row{"IosMh", "48474645"}, row{"IosVa", "5857565554535251"})},
	}
}

// Source: [LWIO §Network Discovery], [OP-10], [OP-11], [OP-12], [OP-20], [OP-24], [OP-25]
func TestHeaderMatchesGoldenBytes(t *testing.T) {
	for _, c := range headerCases() {
		t.Run(c.name, func(t *testing.T) {
			b := golden(t, c.rows...)
			if len(b) != HeaderSize {
				t.Fatalf("%d bytes", len(b))
			}
			same(t, c.h.AppendTo(nil), b)
			got, err := decodeHeader(b)
			if err != nil || got != c.h {
				t.Errorf("decodes to %+v, %v instead of %+v", got, err, c.h)
			}
			refusesPrefixes(t, b, func(b []byte) error { _, err := decodeHeader(b); return err })
			if got, err := decodeHeader(append(b, 1, 2, 3)); err != nil || got != c.h {
				t.Errorf("with a body: %+v, %v", got, err)
			}
		})
	}
}

// The arm that was not chosen is not sent. Source: [OP-24], [OP-25]
func TestHeaderOtherArm(t *testing.T) {
	h := Header{Opcode: OpWrite, Flags: FlagInterrupt, NumPages: 1, PageSize: 2, IosMh: 3, IosVa: 4}
	got, err := decodeHeader(h.AppendTo(nil))
	if want := (Header{Opcode: OpWrite, Flags: FlagInterrupt}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	h = Header{Opcode: OpVecWrite, DataMh: 1, ImmediateCookie: 2, Cookie: 3}
	got, err = decodeHeader(h.AppendTo(nil))
	if want := (Header{Opcode: OpVecWrite}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// Source: [LWIO claim 22], [OP-64], [OP-97]
func TestSetPendingStopsAt255(t *testing.T) {
	for _, c := range []struct {
		n    int
		want uint8
	}{{-1, 0}, {0, 0}, {1, 1}, {254, 254}, {255, 255}, {256, 255}, {1 << 20, 255}} {
		var h Header
		if h.SetPending(c.n); h.Credits != c.want {
			t.Errorf("%d pending: %d", c.n, h.Credits)
		}
	}
}

// Any 48 bytes are a header, and come back as they were.
func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), HeaderSize, HeaderSize).Draw(t, "bytes")
		h, err := decodeHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, h.AppendTo(nil), b)
	})
}

func FuzzHeader(f *testing.F) {
	for _, c := range headerCases() {
		f.Add(c.h.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if (err == nil) != (len(b) >= HeaderSize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err == nil {
			same(t, h.AppendTo(nil), b[:HeaderSize])
		}
	})
}

func decodeHeader(b []byte) (h Header, err error) {
	err = h.Decode(b)
	return h, err
}

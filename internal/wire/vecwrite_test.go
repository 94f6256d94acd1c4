package wire

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Source: [LWIO §Vectored Write], [LWIO claim 16], [LWIO claim 17], [LWIO claim 18], [OP-1], [OP-3], [OP-75], [OP-76], [OP-80], [OP-81]
func TestVecWriteMatchesGoldenBytes(t *testing.T) {
	interrupt := [2]row{{"ImmediateCookie", "00000000"}, {"Cookie", "efcdab8967452301"}}
	poll := [2]row{{"IosMh", "34333231"}, {"IosVa", "4847464544434241"}}
	for _, c := range []struct {
		name, flags string
		collapse    bool
		how         completion
		rows        [2]row
	}{
		{"interrupt", "80", false, sent, interrupt},
		{"polling", "00", false, polled, poll},
		{"interrupt, collapsed", "a0", true, sent, interrupt},
		{"polling, collapsed", "20", true, polled, poll},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := make([]byte, 1025)
			build := NewVecWrite
			if c.collapse {
				build, data = NewCollapse, data[:512]
			}
			b := append(golden(t,
				row{"Length", "01040000"},
				row{"Opcode", "03"},
				row{"Flags", c.flags},
				row{"Credits", "01"},
				row{"Marker", "ff"},
				row{"Fid", "3412"},
				row{"Sequence", "0100"},
				row{"Tid", "00000000"},
				row{"Offset", "0020000001000000"},
				row{"DataVa", "0000000000000000"},
				row{"NumPages", "0300"},
				row{"PageSize", "0002"},
				c.rows[0], c.rows[1],
			), data...)
			h := by(build(0x1234, 0x100002000, 1025, 512), c.how)
			h.SetPending(1)
			h.Sequence = 1
			same(t, append(h.AppendTo(nil), data...), b)
			want(t, h.Check(len(b), depicted), fine)
		})
	}
}

// Source: [LWIO §Vectored Write], [OP-80]
func TestVecWriteCheck(t *testing.T) {
	size := HeaderSize + 100
	checks := append(ioChecks(size), writeChecks()...)
	runChecks(t, by(NewVecWrite(1, 4096, 100, 4096), sent), append(checks,
		checkCase{"pages do not matter", func(h *Header) { h.NumPages, h.PageSize = 77, 0 }, size, fine}))
}

// Source: [LWIO §Vectored Write], [OP-27], [OP-75], [OP-76], [OP-78], [OP-92b]
func TestCollapseCheckRefusesInvalidMessages(t *testing.T) {
	page := HeaderSize + 4096
	set := func(length uint32, pages, size uint16) func(*Header) {
		return func(h *Header) { h.Length, h.NumPages, h.PageSize = length, pages, size }
	}
	runChecks(t, by(NewCollapse(1, 4096, 10000, 4096), sent), append(ioChecks(page),
		checkCase{"polling", func(h *Header) { h.Flags = FlagCollapse }, page, fine},
		checkCase{"less than a page", set(100, 1, 4096), HeaderSize + 100, fine},
		checkCase{"a page", set(4096, 1, 4096), page, fine},
		checkCase{"nothing", set(0, 0, 4096), HeaderSize, fine},
		checkCase{"a window", set(512<<10, 128, 4096), page, fine},
		checkCase{"a byte more", set(512<<10+1, 129, 4096), page, invalid},
		checkCase{"4 GiB", set(math.MaxUint32, 0, 4096), page, invalid},
		checkCase{"too few pages", set(10000, 2, 4096), page, invalid},
		checkCase{"too many pages", set(10000, 4, 4096), page, invalid},
		checkCase{"no page size", set(10000, 3, 0), HeaderSize, invalid},
		checkCase{"pages of 100", set(1000, 10, 100), HeaderSize + 100, invalid},
		checkCase{"pages of 3000", set(9000, 3, 3000), HeaderSize + 3000, invalid},
		checkCase{"more than the server takes", set(32768, 1, 32768), HeaderSize + 32768, ended},
		checkCase{"all pages were sent", nil, HeaderSize + 8000, ended},
	))
}

// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-51], [OP-76], [OP-79]
func TestCheckCollapseByPageSize(t *testing.T) {
	for _, c := range []struct {
		name                 string
		page, client, server uint16
		options              uint32
		want                 outcome
	}{
		{"same pages", 4096, 4096, 4096, 0x8, fine},
		{"other options too", 4096, 4096, 4096, 0x1048, fine},
		{"larger", 8192, 8192, 4096, 0x8, fine},
		{"smaller", 512, 512, 4096, 0x8, fine},
		{"not those of AUTH", 4096, 8192, 4096, 0x8, invalid},
		{"not a multiple", 6144, 6144, 4096, 0x8, invalid},
		{"buffered", 4096, 4096, 4096, 0x20, invalid},
		{"nothing announced", 0, 0, 4096, 0x8, invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := by(NewCollapse(1, 0, 8192, c.page), sent)
			want(t, h.CheckCollapse(c.client, c.server, c.options), c.want)
		})
	}
}

// The constructor and the check agree, for all lengths whose pages can be counted.
//
// Source: [OP-76]
func TestNewCollapsePassesTheCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := uint16(1) << rapid.IntRange(9, 15).Draw(t, "page")
		length := rapid.Uint32Range(0, math.MaxUint16*uint32(page)).Draw(t, "length")
		h := by(NewCollapse(1, 0, length, page), sent)
		size := HeaderSize + int(collapsedSize(length, page))
		if err := h.Check(size, Limits{MaxRecvBufferSize: 32768, MaxRdmaWindowSize: math.MaxUint32}); err != nil {
			t.Fatal(err)
		}
		if n := uint64(h.NumPages) * uint64(page); n < uint64(length) || n >= uint64(length)+uint64(page) {
			t.Fatalf("%d pages of %d for %d bytes", h.NumPages, page, length)
		}
	})
}

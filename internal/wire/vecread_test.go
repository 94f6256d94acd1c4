package wire

import (
	"math"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"pgregory.net/rapid"
)

// Source: [LWIO §Vectored Read], [LWIO claim 16], [LWIO claim 18], [OP-24], [OP-25], [OP-26], [OP-84]
func TestVecReadMatchesGoldenBytes(t *testing.T) {
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
				row{"Length", "00120000"},
				row{"Opcode", "02"},
				c.rows[0],
				row{"Credits", "01"},
				row{"Marker", "ff"},
				row{"Fid", "3412"},
				row{"Sequence", "0100"},
				row{"Tid", "00000000"},
				row{"Offset", "0020000001000000"},
				row{"DataVa", "0000000000000000"},
				row{"NumPages", "0200"},
				row{"PageSize", "0010"},
				c.rows[1], c.rows[2],
				row{"DataVa 0", "5857565554535251"},
				row{"DataMh 0", "64636261"},
				row{"Length 0", "00100000"},
				row{"DataVa 1", "0100000000000000"},
				row{"DataMh 1", "02000000"},
				row{"Length 1", "00020000"},
			)
			h := by(NewVecRead(0x1234, 0x100002000, 4096+512, 2, 4096), c.how)
			h.SetPending(1)
			h.Sequence = 1
			last := RDMARegion{DataVa: 1, DataMh: 2, Length: 512}
			same(t, last.AppendTo(target.AppendTo(h.AppendTo(nil))), b)
			want(t, h.Check(len(b), depicted), fine)
			want(t, h.CheckRegions(b[HeaderSize:], 512), fine)
			if r := RegionAt(b[HeaderSize:], 1); r != last {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Source: [LWIO §Vectored Read], [OP-27], [OP-60b], [OP-83], [OP-92b]
func TestVecReadCheck(t *testing.T) {
	two := HeaderSize + 2*RDMARegionSize
	pages := func(n uint16) func(*Header) { return func(h *Header) { h.NumPages = n } }
	size := func(n uint16) func(*Header) { return func(h *Header) { h.PageSize = n } }
	runChecks(t, by(NewVecRead(1, 4096, 4096+512, 2, 4096), sent), append(ioChecks(two),
		checkCase{"all regions that fit", pages(512), HeaderSize + 8192, fine},
		checkCase{"one more", pages(513), HeaderSize + 8192 + 16, ended},
		checkCase{"more regions than announced", pages(1), two, ended},
		checkCase{"fewer regions than announced", pages(3), two, ended},
		checkCase{"65535 announced", pages(math.MaxUint16), two, ended},
		checkCase{"no regions", pages(0), HeaderSize, invalid},
		checkCase{"nothing", func(h *Header) { h.Length = 0 }, two, fine},
		checkCase{"no page size", size(0), two, invalid},
		checkCase{"pages of 256", size(256), two, invalid},
		checkCase{"pages of 512", size(512), two, fine},
		checkCase{"pages of 3000", size(3000), two, invalid},
		checkCase{"pages of 32768", size(32768), two, fine},
		checkCase{"collapsed", func(h *Header) { h.Flags |= FlagCollapse }, two, invalid},
	))
}

// Source: [LWIO §Vectored Read], [OP-82], [OP-83]
func TestCheckRegionsHoldEveryByte(t *testing.T) {
	for _, c := range []struct {
		name    string
		length  uint32
		sector  uint32
		regions []uint32
		want    outcome
	}{
		{"one page", 4096, 1, []uint32{4096}, fine},
		{"a short page", 10, 1, []uint32{10}, fine},
		{"more than is read", 10, 1, []uint32{4096, 4096, 7}, fine},
		{"nothing", 0, 1, []uint32{1}, fine},
		{"exactly", 4097, 1, []uint32{4096, 1}, fine},
		{"too little", 4098, 1, []uint32{4096, 1}, invalid},
		{"first too short", 4096, 1, []uint32{4095, 4096}, invalid},
		{"first too long", 4096, 1, []uint32{4097, 1}, invalid},
		{"middle too short", 9000, 1, []uint32{4096, 512, 4096}, invalid},
		{"last too long", 4096, 1, []uint32{4096, 4097}, invalid},
		{"last is empty", 4096, 1, []uint32{4096, 0}, invalid},
		{"only is empty", 0, 1, []uint32{0}, invalid},
		{"no regions", 0, 1, nil, invalid},
		{"more than 4 GiB in one", 4096, 1, []uint32{math.MaxUint32}, invalid},
		{"unbuffered, sectors", 4608, 512, []uint32{4096, 512}, fine},
		{"unbuffered, part of a sector", 4100, 512, []uint32{4096, 100}, invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := by(NewVecRead(1, 0, c.length, uint16(len(c.regions)), 4096), sent)
			var body []byte
			for i, n := range c.regions {
				body = RDMARegion{DataVa: uint64(i), Length: n}.AppendTo(body)
			}
			want(t, h.CheckRegions(body, c.sector), c.want)
			h.NumPages++
			want(t, h.CheckRegions(body, c.sector), invalid)
		})
	}
}

// Accepted regions hold every byte, and no region is larger than a page.
//
// Source: [OP-83]
func TestCheckRegionsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.SampledFrom([]uint32{512, 4096}).Draw(t, "page")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.Just(page), rapid.Uint32Range(0, page+1)), 1, 6).Draw(t, "sizes")
		length := rapid.Uint32Range(0, 6*page).Draw(t, "length")
		h := by(NewVecRead(1, 0, length, uint16(len(sizes)), uint16(page)), sent)
		var body []byte
		var sum uint64
		for _, n := range sizes {
			body = RDMARegion{Length: n}.AppendTo(body)
			sum += uint64(n)
		}
		last := sizes[len(sizes)-1]
		whole := !slices.ContainsFunc(sizes[:len(sizes)-1], func(n uint32) bool { return n != page })
		ok := whole && last >= 1 && last <= page && sum >= uint64(length)
		err := h.CheckRegions(body, 1)
		if (err == nil) != ok || err != nil && ntstatus.Of(err) != ntstatus.InvalidParameter {
			t.Fatalf("%d bytes to %v: %v", length, sizes, err)
		}
	})
}

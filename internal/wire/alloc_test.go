package wire

import "testing"

// Structures of fixed size and the checks of valid messages cost no allocation.
func TestFixedSizesDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	h := by(NewVecRead(1, 0, 4096, 1, 4096), sent)
	header := h.AppendTo(nil)
	status := statusResponse.AppendTo(nil)
	region := target.AppendTo(nil)
	params := fidParams.AppendTo(nil)
	bare := clientParams()
	bare.Key, bare.Signature = nil, nil
	fixed := bare.AppendTo(nil)
	control := controlHeader{RevID: RevID}.AppendTo(nil)
	checked := []Header{
		by(NewRead(1, 0, target), sent), by(NewWrite(1, 0, 0), polled), by(NewCollapse(1, 0, 0, 4096), sent),
		NewClose(2), NewCancel(2), NewCredit(-1), NewInterrupt(2),
	}
	var failed error
	note := func(err error) {
		if err != nil {
			failed = err
		}
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"Header.AppendTo", func() { buf = h.AppendTo(buf[:0]) }},
		{"Header.Decode", func() { _, err := decodeHeader(header); note(err) }},
		{"StatusResponse.AppendTo", func() { buf = statusResponse.AppendTo(buf[:0]) }},
		{"DecodeStatusResponse", func() { _, err := DecodeStatusResponse(status); note(err) }},
		{"IOStatusBlock.AppendTo", func() { buf = PendingBlock().AppendTo(buf[:0]) }},
		{"IOStatusBlock.Uint64", func() { IOStatusBlockFromUint64(PendingBlock().Uint64()) }},
		{"RDMARegion.AppendTo", func() { buf = target.AppendTo(buf[:0]) }},
		{"RegionAt", func() { RegionAt(region, 0) }},
		{"FIDParams.AppendTo", func() { buf = fidParams.AppendTo(buf[:0]) }},
		{"DecodeFIDParams", func() { _, err := DecodeFIDParams(params); note(err) }},
		{"AuthParams.AppendTo", func() { buf = bare.AppendTo(buf[:0]) }},
		{"DecodeAuthParams", func() { _, err := DecodeAuthParams(fixed); note(err) }},
		{"controlHeader.AppendTo", func() { buf = controlHeader{}.AppendTo(buf[:0]) }},
		{"decodeControlHeader", func() { _, err := decodeControlHeader(control); note(err) }},
		{"CheckRegions", func() { note(h.CheckRegions(region, 512)) }},
		{"Check", func() {
			note(h.Check(HeaderSize+RDMARegionSize, depicted))
			for i := range checked {
				note(checked[i].Check(HeaderSize, depicted))
			}
		}},
	} {
		if n := testing.AllocsPerRun(100, c.do); n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
	if failed != nil {
		t.Error(failed)
	}
}

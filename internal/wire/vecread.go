package wire

import "lwio/internal/ntstatus"

// NewVecRead makes the header of a VEC_READ message: length bytes of the file at offset go to
// regions of pageSize bytes each, whose RDMARegions follow the header.
//
// Source: [LWIO §Vectored Read], [LWIO claim 16], [OP-23], [OP-25], [OP-83]
func NewVecRead(fid uint16, offset uint64, length uint32, regions, pageSize uint16) Header {
	return Header{
		Opcode: OpVecRead, Marker: Marker, Fid: fid, Offset: offset,
		Length: length, NumPages: regions, PageSize: pageSize,
	}
}

// checkVecRead checks the header of a VEC_READ message of received bytes. The number of regions
// is bounded by the size of the message.
//
// Source: [LWIO §Vectored Read], [OP-27], [OP-60b], [OP-83], [OP-92c]
func (h *Header) checkVecRead(received int) error {
	if want := HeaderSize + RDMARegionSize*int(h.NumPages); received != want {
		return wrongSize(h.Opcode.String(), received, want)
	}
	if err := h.checkFlags(FlagInterrupt | FlagControl); err != nil {
		return err
	}
	if h.NumPages == 0 || !validPageSize(h.PageSize) {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "%d regions of %d bytes", h.NumPages, h.PageSize)
	}
	return h.checkRange()
}

// CheckRegions checks the body of a VEC_READ message for the server, after Check: every region
// but the last has the page size, the last has 1 byte to a page, and together they hold Length.
// The last is also a multiple of sector, the sector size in bytes; 1 for a file that is not
// opened unbuffered.
//
// Errors: *Error with INVALID_PARAMETER.
//
// Source: [LWIO §Vectored Read], [OP-82], [OP-83]
func (h *Header) CheckRegions(body []byte, sector uint32) error {
	n := len(body) / RDMARegionSize
	if n != int(h.NumPages) || n == 0 {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "%d regions in %d bytes", h.NumPages, len(body))
	}
	for i := range n - 1 {
		if got := RegionAt(body, i).Length; got != uint32(h.PageSize) {
			return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "region %d of %d bytes instead of %d", i, got, h.PageSize)
		}
	}
	last := RegionAt(body, n-1).Length
	if last == 0 || last > uint32(h.PageSize) || last%sector != 0 {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "last region of %d bytes", last)
	}
	if room := uint64(n-1)*uint64(h.PageSize) + uint64(last); room < uint64(h.Length) {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "%d bytes of regions for %d", room, h.Length)
	}
	return nil
}

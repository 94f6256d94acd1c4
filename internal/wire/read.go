package wire

import "lwio/internal/ntstatus"

// NewRead makes a READ message: target.Length bytes of the file at offset go to target.
//
// Source: [LWIO §Read], [LWIO claim 2], [LWIO claim 16], [OP-23], [OP-24], [OP-26]
func NewRead(fid uint16, offset uint64, target RDMARegion) Header {
	return Header{
		Opcode: OpRead, Marker: Marker, Fid: fid, Offset: offset,
		Length: target.Length, DataVa: target.DataVa, DataMh: target.DataMh,
	}
}

// checkRead checks a READ message of received bytes.
//
// Source: [LWIO §Read], [OP-27], [OP-60], [OP-63], [OP-92c]
func (h *Header) checkRead(received int, l Limits) error {
	if received != HeaderSize {
		return wrongSize(h.Opcode.String(), received, HeaderSize)
	}
	if err := h.checkFlags(FlagInterrupt | FlagControl); err != nil {
		return err
	}
	if h.Length > l.MaxRdmaWindowSize {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter,
			"%d bytes where %d are allowed", h.Length, l.MaxRdmaWindowSize)
	}
	return h.checkRange()
}

package wire

import "lwio/internal/ntstatus"

// NewRead is a READ message: target.Length bytes of the file at offset go to
// target.
//
// Source: [LWIO §Read], [LWIO claim 2], [LWIO claim 16], [OP-24], [OP-26]
func NewRead(fid uint16, offset uint64, target RDMARegion, c Completion) Header {
	h := c.io(OpRead, fid, target.Length, offset)
	h.DataVa, h.DataMh = target.DataVa, target.DataMh
	return h
}

// checkRead is what a server demands of a READ message of received bytes.
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

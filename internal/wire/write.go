package wire

// NewWrite makes the header of a WRITE message. length bytes of data follow it.
//
// Source: [LWIO §Write], [LWIO claim 2], [LWIO claim 16], [OP-23], [OP-26], [OP-96]
func NewWrite(fid uint16, offset uint64, length uint32) Header {
	return Header{Opcode: OpWrite, Marker: Marker, Fid: fid, Offset: offset, Length: length}
}

// checkWrite checks a WRITE, or a VEC_WRITE that is not collapsed, of received bytes. More data
// than the server accepts ends the connection.
//
// Source: [LWIO §Write], [LWIO §Vectored Write], [OP-27], [OP-61], [OP-63], [OP-80], [OP-92c]
func (h *Header) checkWrite(received int, l Limits) error {
	if h.Length > l.MaxRecvBufferSize {
		return cut(h.Opcode.String(), "%d bytes where %d are allowed", h.Length, l.MaxRecvBufferSize)
	}
	if data := received - HeaderSize; uint32(data) != h.Length {
		return cut(h.Opcode.String(), "length %d with %d bytes of data", h.Length, data)
	}
	if err := h.checkFlags(FlagInterrupt | FlagControl); err != nil {
		return err
	}
	return h.checkRange()
}

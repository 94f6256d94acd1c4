package wire

import "lwio/internal/ntstatus"

// NewVecWrite makes the header of a VEC_WRITE message. length bytes of data follow it.
// NumPages and PageSize are set, and mean nothing to the server.
//
// Source: [LWIO §Vectored Write], [LWIO claim 16], [OP-1], [OP-23], [OP-80], [OP-81]
func NewVecWrite(fid uint16, offset uint64, length uint32, pageSize uint16) Header {
	return Header{
		Opcode: OpVecWrite, Marker: Marker, Fid: fid, Offset: offset,
		Length: length, NumPages: uint16(pages(length, pageSize)), PageSize: pageSize,
	}
}

// NewCollapse makes the header of a collapsed VEC_WRITE message. The first page of the data
// follows it, or all of it if length is less; the server repeats the page from offset on until
// it has length bytes. The number of pages must fit 16 bits.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-75], [OP-76], [OP-77]
func NewCollapse(fid uint16, offset uint64, length uint32, pageSize uint16) Header {
	h := NewVecWrite(fid, offset, length, pageSize)
	h.Flags = FlagCollapse
	return h
}

// collapsedSize is the number of bytes that a collapsed write of length bytes in pages of
// pageSize carries.
//
// Source: [OP-76]
func collapsedSize(length uint32, pageSize uint16) uint32 { return min(length, uint32(pageSize)) }

// pages is the number of pages of pageSize bytes that length bytes take.
func pages(length uint32, pageSize uint16) uint64 {
	if pageSize == 0 {
		return 0
	}
	return (uint64(length) + uint64(pageSize) - 1) / uint64(pageSize)
}

// checkCollapse checks a collapsed VEC_WRITE message of received bytes. A Length above the window
// is answered, as the message itself is not too long.
//
// Source: [LWIO §Vectored Write], [OP-27], [OP-76], [OP-78], [OP-92c]
func (h *Header) checkCollapse(received int, l Limits) error {
	if want := int64(HeaderSize) + int64(collapsedSize(h.Length, h.PageSize)); int64(received) != want {
		return cut(h.Opcode.String(), "%d bytes instead of %d, collapsed", received, want)
	}
	if err := h.checkFlags(flagsKnown); err != nil {
		return err
	}
	if !validPageSize(h.PageSize) || uint64(h.NumPages) != pages(h.Length, h.PageSize) {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter,
			"%d bytes in %d pages of %d, collapsed", h.Length, h.NumPages, h.PageSize)
	}
	if h.Length > l.MaxRdmaWindowSize {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter,
			"%d bytes where %d are allowed, collapsed", h.Length, l.MaxRdmaWindowSize)
	}
	return h.checkRange()
}

// CheckCollapse checks a collapsed VEC_WRITE message for the server, after Check: it has the page
// size of the client's AUTH, one of that size and the server's divides the other, and the file is
// opened unbuffered.
//
// Errors: *Error with INVALID_PARAMETER.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-51], [OP-76], [OP-79]
func (h *Header) CheckCollapse(clientPage, serverPage uint16, createOptions uint32) error {
	if createOptions&NoIntermediateBuffering == 0 {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "collapsed, of a buffered file")
	}
	if h.PageSize != clientPage {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter,
			"collapsed, pages of %d bytes instead of %d", h.PageSize, clientPage)
	}
	if !PagesDivide(clientPage, serverPage) {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter,
			"collapsed, pages of %d and %d bytes", clientPage, serverPage)
	}
	return nil
}

// PagesDivide reports whether one page size is a multiple of the other; else writes cannot be
// collapsed.
//
// Source: [LWIO §Vectored Write], [OP-79]
func PagesDivide(a, b uint16) bool {
	return a != 0 && b != 0 && max(a, b)%min(a, b) == 0
}

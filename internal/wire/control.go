package wire

import "lwio/internal/ntstatus"

// control is the header of a control message of length bytes, which is always completed by a
// status response.
//
// Source: [OP-23], [OP-26]
func control(op Opcode, length int) Header {
	return Header{Length: uint32(length), Opcode: op, Flags: FlagInterrupt, Marker: Marker}
}

// controlSize is the size of a control message, in bytes; for AUTH the smallest.
func controlSize(op Opcode) int {
	switch op {
	case OpAuth:
		return HeaderSize + authFixedSize + 1
	case OpRegister:
		return HeaderSize + FIDParamsSize
	default:
		return HeaderSize
	}
}

// checkControl checks a control message of received bytes.
//
// Source: [OP-27], [OP-92h], [OP-106]
func (h *Header) checkControl(received int) error {
	if !h.Interrupt() {
		return cut(h.Opcode.String(), "no INTERRUPT flag, so no cookie to answer with")
	}
	if uint64(h.Length) != uint64(received) {
		return cut(h.Opcode.String(), "length %d in a message of %d bytes", h.Length, received)
	}
	want := controlSize(h.Opcode)
	if h.Opcode == OpAuth && received >= want {
		want = received
	}
	if received != want {
		return wrongSize(h.Opcode.String(), received, want)
	}
	return h.checkFlags(FlagInterrupt | FlagControl)
}

// checkFlags checks that only allowed flags are set.
//
// Source: [OP-92h], [OP-106]
func (h *Header) checkFlags(allowed uint8) error {
	bad := h.Flags &^ allowed
	switch {
	case bad == 0:
		return nil
	case h.Opcode == OpAuth:
		return deny(h.Opcode.String(), "flags 0x%02X", bad)
	default:
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "flags 0x%02X", bad)
	}
}

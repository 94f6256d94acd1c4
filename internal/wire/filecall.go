package wire

import (
	"math"

	"lwio/internal/ntstatus"
)

// Extensions is a set of extensions of the messages, in option 0x84. A peer that does not know the option
// skips it, and the connection has none.
//
// Source: [OP-116]
type Extensions uint32

// A peer ignores the other bits.
const (
	// FileCalls is the extension of LOCK, UNLOCK, SYNC, SETSIZE and STAT. [OP-116]
	FileCalls Extensions = 1 << 0
	// Names is the extension of LOOKUP and of registered directories. It needs FileCalls. [OP-118]
	Names Extensions = 1 << 1
)

// Agreed returns the extensions of a connection whose client offers x.
//
// Source: [OP-116], [OP-118]
func (x Extensions) Agreed() Extensions {
	if x&FileCalls == 0 {
		return 0
	}
	return x & (FileCalls | Names)
}

// extensionsSize is the size of option 0x84, in bytes.
const extensionsSize = 4

// fileCall is the header of a file call without data: Length is the size of the message.
//
// Source: [OP-116]
func fileCall(op Opcode, fid uint16) Header {
	return Header{Length: HeaderSize, Opcode: op, Marker: Marker, Fid: fid}
}

// checkFileCall checks a file call of received bytes.
//
// Source: [OP-116]
func (h *Header) checkFileCall(received int) error {
	switch {
	case h.Opcode == OpLookup && received > HeaderSize+MaxLookup:
		return cut(h.Opcode.String(), "a name of %d bytes", received-HeaderSize)
	case h.Opcode != OpLookup && received != HeaderSize:
		return wrongSize(h.Opcode.String(), received, HeaderSize)
	case !h.Opcode.Describes() && h.Length != HeaderSize:
		return cut(h.Opcode.String(), "length %d in a message of %d bytes", h.Length, received)
	}
	allowed := FlagInterrupt | FlagControl
	if h.Opcode == OpLock {
		allowed |= FlagShared
	}
	if err := h.checkFlags(allowed); err != nil {
		return err
	}
	switch {
	case h.Opcode.Describes() && h.Length < StatInfoSize:
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "room for %d bytes", h.Length)
	case h.Opcode == OpSetSize && h.Offset > math.MaxInt64:
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "size %#x", h.Offset)
	}
	return nil
}

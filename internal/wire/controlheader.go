package wire

import "encoding/binary"

// ControlHeaderSize is the size of the control header, in bytes.
//
// Source: [OP-5]
const ControlHeaderSize = 12

// OpNegotiate is the opcode of NEGOTIATE, in both directions of the pipe.
//
// Source: [LWIO §Network Discovery], [OP-107]
const OpNegotiate uint16 = 0xFE

// MaxNegotiateSize is the most bytes that a message on the pipe has, because its
// length is a u16.
//
// Source: [OP-35]
const MaxNegotiateSize = 0xFFFF

// ControlHeader begins a message on the pipe.
//
//	0 ProtocolId "LWIO"   4 RevId u32   8 Opcode u16   10 Length u16
//
// Source: [LWIO §Network Discovery], [OP-14], [OP-15]
type ControlHeader struct {
	RevID  uint32
	Opcode uint16
	// Length is the size of the whole message, in bytes.
	Length uint16
}

// AppendTo appends the 12 bytes of the header to b.
func (h ControlHeader) AppendTo(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, h.RevID)
	b = binary.LittleEndian.AppendUint16(b, h.Opcode)
	return binary.LittleEndian.AppendUint16(b, h.Length)
}

// DecodeControlHeader decodes the header of a whole message of the pipe.
//
// Errors: *Error, which closes the pipe: too short, or another protocol.
//
// Source: [LWIO §Network Discovery], [OP-15]
func DecodeControlHeader(b []byte) (ControlHeader, error) {
	if len(b) < ControlHeaderSize {
		return ControlHeader{}, wrongSize("control header", len(b), ControlHeaderSize)
	}
	if string(b[:4]) != magic {
		return ControlHeader{}, cut("control header", "begins with % x instead of %q", b[:4], magic)
	}
	return ControlHeader{
		RevID:  binary.LittleEndian.Uint32(b[4:]),
		Opcode: binary.LittleEndian.Uint16(b[8:]),
		Length: binary.LittleEndian.Uint16(b[10:]),
	}, nil
}

// negotiateBody checks the header of a whole NEGOTIATE message and returns a cursor
// on what follows.
//
// Source: [LWIO §Network Discovery], [OP-35], [OP-37]
func negotiateBody(b []byte) (cursor, error) {
	h, err := DecodeControlHeader(b)
	switch {
	case err != nil:
		return cursor{}, err
	case h.RevID != RevID:
		return cursor{}, cut(negotiate, "revision 0x%X instead of 0x%X", h.RevID, RevID)
	case h.Opcode != OpNegotiate:
		return cursor{}, cut(negotiate, "opcode 0x%X instead of 0x%X", h.Opcode, OpNegotiate)
	case int(h.Length) != len(b):
		return cursor{}, cut(negotiate, "length %d in a message of %d bytes", h.Length, len(b))
	}
	return cursor{rest: b[ControlHeaderSize:]}, nil
}

// startNegotiate appends a header without its length, which endNegotiate fills in.
func startNegotiate(b []byte) []byte {
	return ControlHeader{RevID: RevID, Opcode: OpNegotiate}.AppendTo(b)
}

// endNegotiate fills in the length of the message that begins at start.
func endNegotiate(b []byte, start int) ([]byte, error) {
	n := len(b) - start
	if n > MaxNegotiateSize {
		return nil, cut(negotiate, "%d bytes where %d are allowed", n, MaxNegotiateSize)
	}
	binary.LittleEndian.PutUint16(b[start+10:], uint16(n))
	return b, nil
}

// negotiate is the name of the message in errors.
const negotiate = "NEGOTIATE"

package wire

import "encoding/binary"

// controlHeaderSize is the size of the control header, in bytes.
//
// Source: [OP-5]
const controlHeaderSize = 12

// opNegotiate is the opcode of NEGOTIATE, in both directions of the pipe.
//
// Source: [LWIO §Network Discovery], [OP-107]
const opNegotiate uint16 = 0xFE

// maxNegotiateSize is the size of the largest message on the pipe, in bytes: its length is a
// u16.
//
// Source: [OP-35]
const maxNegotiateSize = 0xFFFF

// controlHeader begins a message on the pipe.
//
//	0 ProtocolId "LWIO"   4 RevId u32   8 Opcode u16   10 Length u16
//
// Source: [LWIO §Network Discovery], [OP-14], [OP-15]
type controlHeader struct {
	RevID  uint32
	Opcode uint16
	// Length is the size of the whole message, in bytes.
	Length uint16
}

// AppendTo appends the 12 bytes of the header to b.
func (h controlHeader) AppendTo(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, h.RevID)
	b = binary.LittleEndian.AppendUint16(b, h.Opcode)
	return binary.LittleEndian.AppendUint16(b, h.Length)
}

// decodeControlHeader decodes the header of a whole message of the pipe.
//
// Errors: *Error, which closes the pipe: too short, or another protocol.
//
// Source: [LWIO §Network Discovery], [OP-15]
func decodeControlHeader(b []byte) (controlHeader, error) {
	if len(b) < controlHeaderSize {
		return controlHeader{}, wrongSize("control header", len(b), controlHeaderSize)
	}
	if string(b[:4]) != magic {
		return controlHeader{}, cut("control header", "begins with % x instead of %q", b[:4], magic)
	}
	return controlHeader{
		RevID:  binary.LittleEndian.Uint32(b[4:]),
		Opcode: binary.LittleEndian.Uint16(b[8:]),
		Length: binary.LittleEndian.Uint16(b[10:]),
	}, nil
}

// negotiateBody checks the header of a whole NEGOTIATE message and returns a cursor on its
// body.
//
// Source: [LWIO §Network Discovery], [OP-35], [OP-37]
func negotiateBody(b []byte) (cursor, error) {
	h, err := decodeControlHeader(b)
	switch {
	case err != nil:
		return cursor{}, err
	case h.RevID != RevID:
		return cursor{}, cut(negotiate, "revision 0x%X instead of 0x%X", h.RevID, RevID)
	case h.Opcode != opNegotiate:
		return cursor{}, cut(negotiate, "opcode 0x%X instead of 0x%X", h.Opcode, opNegotiate)
	case int(h.Length) != len(b):
		return cursor{}, cut(negotiate, "length %d in a message of %d bytes", h.Length, len(b))
	}
	return cursor{rest: b[controlHeaderSize:]}, nil
}

// startNegotiate appends a header without its length, which endNegotiate fills in.
func startNegotiate(b []byte) []byte {
	return controlHeader{RevID: RevID, Opcode: opNegotiate}.AppendTo(b)
}

// endNegotiate fills in the length of the message that begins at start.
func endNegotiate(b []byte, start int) ([]byte, error) {
	n := len(b) - start
	if n > maxNegotiateSize {
		return nil, cut(negotiate, "%d bytes where %d are allowed", n, maxNegotiateSize)
	}
	binary.LittleEndian.PutUint16(b[start+10:], uint16(n))
	return b, nil
}

// negotiate is the name of the message in errors.
const negotiate = "NEGOTIATE"

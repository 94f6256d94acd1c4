package smbwire

import "encoding/binary"

var le = binary.LittleEndian

// checkBody checks that body holds the fixed part of a message and begins with the
// structure size of that message.
func checkBody(structure string, body []byte, fixed int, structureSize uint16) error {
	if len(body) < fixed {
		return fault(structure, "", ErrShort)
	}
	if le.Uint16(body) != structureSize {
		return fault(structure, "StructureSize", ErrStructureSize)
	}
	return nil
}

// span returns the bytes of body at an offset from the header, nil for none. They must lie
// behind the fixed part.
func span(structure, field string, body []byte, fixed int, offset, length uint32) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	start := int64(offset) - HeaderSize
	end := start + int64(length)
	if start < int64(fixed) || end > int64(len(body)) {
		return nil, fault(structure, field, ErrOffset)
	}
	return body[start:end:end], nil
}

// span16 is span for a 16-bit offset at byte at of body, followed by a 16-bit length.
func span16(structure, field string, body []byte, fixed, at int) ([]byte, error) {
	return span(structure, field, body, fixed, uint32(le.Uint16(body[at:])), uint32(le.Uint16(body[at+2:])))
}

// span32 is span for a 32-bit offset at byte at of body, followed by a 32-bit length.
func span32(structure, field string, body []byte, fixed, at int) ([]byte, error) {
	return span(structure, field, body, fixed, le.Uint32(body[at:]), le.Uint32(body[at+4:]))
}

// flagsSize is the fixed part of a body of flags and data, in bytes.
const flagsSize = 8

// appendFlags appends a body of 16-bit flags and data behind them.
func appendFlags(b []byte, flags uint16, data []byte) []byte {
	b = le.AppendUint16(b, flagsSize+1)
	b = le.AppendUint16(b, flags)
	b = le.AppendUint16(b, HeaderSize+flagsSize)
	b = le.AppendUint16(b, uint16(len(data)))
	return append(b, data...)
}

// decodeFlags decodes a body of 16-bit flags and data behind them.
func decodeFlags(structure, field string, body []byte) (flags uint16, data []byte, err error) {
	if err := checkBody(structure, body, flagsSize, flagsSize+1); err != nil {
		return 0, nil, err
	}
	data, err = span16(structure, field, body, flagsSize, 4)
	return le.Uint16(body[2:]), data, err
}

// rest returns n bytes of b from byte at, nil for none.
func rest(structure, field string, b []byte, at int, n uint32) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	end := int64(at) + int64(n)
	if end > int64(len(b)) {
		return nil, fault(structure, field, ErrOffset)
	}
	return b[at:end:end], nil
}

// offsetOf returns the offset from the header of the next n bytes appended to b, in a body
// that begins at start; zero for none.
func offsetOf(b []byte, start, n int) uint32 {
	if n == 0 {
		return 0
	}
	return uint32(HeaderSize + len(b) - start)
}

// pad8 appends zeros until the length of b from start is a multiple of 8 bytes.
func pad8(b []byte, start int) []byte {
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendZeros(b []byte, n int) []byte {
	for range n {
		b = append(b, 0)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendUint16s(b []byte, list []uint16) []byte {
	for _, v := range list {
		b = le.AppendUint16(b, v)
	}
	return b
}

// uint16s decodes n numbers from the start of b. Precondition: b is long enough.
func uint16s(b []byte, n int) []uint16 {
	list := make([]uint16, n)
	for i := range list {
		list[i] = le.Uint16(b[2*i:])
	}
	return list
}

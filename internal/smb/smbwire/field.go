package smbwire

import "encoding/binary"

var le = binary.LittleEndian

// checkBody checks that body holds the fixed part of a message and starts with
// the structure size that the message has.
func checkBody(structure string, body []byte, fixed int, structureSize uint16) error {
	if len(body) < fixed {
		return fault(structure, "", ErrShort)
	}
	if le.Uint16(body) != structureSize {
		return fault(structure, "StructureSize", ErrStructureSize)
	}
	return nil
}

// span returns the bytes of body that an offset from the header and a length
// name, nil for none. They must lie behind the fixed part.
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

// rest returns n bytes of b from at on, nil for none.
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

// offsetOf returns the offset from the header for what is appended to b next, in
// a body that began at start; zero if nothing is.
func offsetOf(b []byte, start, n int) uint32 {
	if n == 0 {
		return 0
	}
	return uint32(HeaderSize + len(b) - start)
}

// pad8 appends zeros until b is a multiple of 8 bytes from start on.
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

// uint16s decodes n numbers from the start of b, which must be long enough.
func uint16s(b []byte, n int) []uint16 {
	list := make([]uint16, n)
	for i := range list {
		list[i] = le.Uint16(b[2*i:])
	}
	return list
}

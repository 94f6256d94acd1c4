package frame

import (
	"encoding/binary"
	"errors"
)

// Errors of decodeFPDU.
var (
	errFPDUShort = errors.New("incomplete FPDU")
	errCRC       = errors.New("wrong CRC")
)

// decodeFPDU splits the first FPDU off b. It returns errFPDUShort if b has only a part of
// it. The ULPDU refers to b.
func decodeFPDU(b []byte, crc bool) (ulpdu, rest []byte, err error) {
	if len(b) < FPDUHeaderSize {
		return nil, b, errFPDUShort
	}
	n := int(binary.BigEndian.Uint16(b))
	size := FPDUSize(n)
	if len(b) < size {
		return nil, b, errFPDUShort
	}
	if crc && !CheckFPDU(b[:size]) {
		return nil, b, errCRC
	}
	return b[FPDUHeaderSize : FPDUHeaderSize+n], b[size:], nil
}

// decodeSegment returns the segment that Decode reads.
func decodeSegment(b []byte) (s Segment, err error) {
	err = s.Decode(b)
	return s, err
}

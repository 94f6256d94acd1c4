package frame

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of an FPDU's parts and limits of its content, in bytes.
//
// Source: [RFC 5044 §4.1], [RFC 5044 §4.5]
const (
	FPDUHeaderSize = 2
	CRCSize        = 4
	MaxULPDU       = 64768
	MinULPDU       = 128
	MaxFPDU        = FPDUHeaderSize + 0xFFFF + 3 + CRCSize
)

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// padding is the longest padding of an FPDU.
var padding [3]byte

// PadOf returns the number of zero bytes after a ULPDU.
func PadOf(ulpdu int) int { return -(FPDUHeaderSize + ulpdu) & 3 }

// FPDUSize returns the size of the FPDU around a ULPDU.
func FPDUSize(ulpdu int) int { return FPDUHeaderSize + ulpdu + PadOf(ulpdu) + CRCSize }

// UpdateCRC continues the CRC sum over b. A CRC begins with 0.
func UpdateCRC(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// appendCRC appends a CRC in its order on the wire: least significant byte first.
func appendCRC(b []byte, sum uint32) []byte { return binary.LittleEndian.AppendUint32(b, sum) }

// AppendTrailer appends padding and CRC to b. b ends with the ULPDU of an FPDU. ulpdu is
// the size of the ULPDU, sum the CRC of the FPDU so far. Without crc the CRC field is
// zero.
//
// Source: [RFC 5044 §4.4]
func AppendTrailer(b []byte, ulpdu int, sum uint32, crc bool) []byte {
	end := len(b)
	b = append(b, padding[:PadOf(ulpdu)]...)
	if !crc {
		return appendCRC(b, 0)
	}
	return appendCRC(b, UpdateCRC(sum, b[end:]))
}

// AppendFPDU appends the FPDU around ulpdu.
func AppendFPDU(b, ulpdu []byte, crc bool) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	return AppendTrailer(b, len(ulpdu), UpdateCRC(0, b[start:]), crc)
}

// CheckFPDU reports whether the CRC at the end of an FPDU is right.
//
// Source: [RFC 5044 §4.4]
func CheckFPDU(fpdu []byte) bool {
	end := len(fpdu) - CRCSize
	return UpdateCRC(0, fpdu[:end]) == binary.LittleEndian.Uint32(fpdu[end:])
}

// ULPDUForMSS returns the size of the largest ULPDU that fits, as an FPDU, into one TCP
// segment of mss bytes.
//
// Source: [RFC 5044 §4.5]
func ULPDUForMSS(mss int) int { return mss - (6 + mss%4) }

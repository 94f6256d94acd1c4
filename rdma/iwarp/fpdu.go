package iwarp

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Sizes of an FPDU's parts and limits of its content, in bytes.
//
// Source: [RFC 5044 §4], [RFC 5044 §4.1]
const (
	fpduHeaderSize = 2
	crcSize        = 4
	maxULPDU       = 64768
	minULPDU       = 128
	maxFPDU        = fpduHeaderSize + 0xFFFF + 3 + crcSize
)

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of FPDU framing.
var (
	errFPDUShort = errors.New("incomplete FPDU")
	errCRC       = errors.New("wrong CRC")
)

// padOf is the number of zero bytes after a ULPDU.
func padOf(ulpdu int) int { return -(fpduHeaderSize + ulpdu) & 3 }

// fpduSize is the size of the FPDU around a ULPDU.
func fpduSize(ulpdu int) int { return fpduHeaderSize + ulpdu + padOf(ulpdu) + crcSize }

// appendCRC appends a CRC in its order on the wire: least significant byte first.
func appendCRC(b []byte, sum uint32) []byte { return binary.LittleEndian.AppendUint32(b, sum) }

// sealFPDU pads and ends the FPDU that begins at start of b, whose length field
// and ULPDU are there already. Without crc the field is zero.
func sealFPDU(b []byte, start int, crc bool) []byte {
	ulpdu := len(b) - start - fpduHeaderSize
	b = append(b, make([]byte, padOf(ulpdu))...)
	if !crc {
		return appendCRC(b, 0)
	}
	return appendCRC(b, crc32.Checksum(b[start:], castagnoli))
}

// appendFPDU appends the FPDU around ulpdu.
func appendFPDU(b, ulpdu []byte, crc bool) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ulpdu)))
	return sealFPDU(append(b, ulpdu...), start, crc)
}

// decodeFPDU splits the first FPDU off b. It returns errFPDUShort when b ends
// before it does; the ULPDU is part of b.
func decodeFPDU(b []byte, crc bool) (ulpdu, rest []byte, err error) {
	if len(b) < fpduHeaderSize {
		return nil, b, errFPDUShort
	}
	n := int(binary.BigEndian.Uint16(b))
	size := fpduSize(n)
	if len(b) < size {
		return nil, b, errFPDUShort
	}
	if crc && !checkFPDU(b[:size]) {
		return nil, b, errCRC
	}
	return b[fpduHeaderSize : fpduHeaderSize+n], b[size:], nil
}

// checkFPDU tells whether the CRC at the end of an FPDU is right.
//
// Source: [RFC 5044 §4.4]
func checkFPDU(fpdu []byte) bool {
	end := len(fpdu) - crcSize
	return crc32.Checksum(fpdu[:end], castagnoli) == binary.LittleEndian.Uint32(fpdu[end:])
}

// ulpduForMSS is the largest ULPDU whose FPDU fills one TCP segment.
//
// Source: [RFC 5044 §4.1]
func ulpduForMSS(mss int) int { return mss - (6 + mss%4) }

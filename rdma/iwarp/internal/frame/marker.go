package frame

import (
	"encoding/binary"
	"errors"
)

// A marker stands at every markerSpacing-th byte of a stream in full operation mode.
// Sizes are in bytes.
//
// Source: [RFC 5044 §4.3]
const (
	markerSpacing = 512
	markerSize    = 4
)

// errMarker reports a marker that disagrees with the length of its frame.
var errMarker = errors.New("marker and length disagree")

// Marker inserts markers into one direction of a stream, or removes them. The CRC of a
// frame covers the markers within it.
//
// Source: [RFC 5044 §4.3]
type Marker struct {
	CRC bool
	At  uint64 // bytes of the stream so far, markers included
}

// Mark appends a frame with markers and a CRC that covers them.
//
// Source: [RFC 5044 §4.3], [RFC 5044 §4.4]
func (m *Marker) Mark(b, fpdu []byte) []byte {
	start := len(b)
	header := -1 // the offset of the frame's length field
	for len(fpdu) > 0 {
		if m.At%markerSpacing == 0 {
			distance := 0
			if header >= 0 {
				distance = len(b) - header
			}
			b = binary.BigEndian.AppendUint32(b, uint32(distance))
			m.At += markerSize
		}
		if header < 0 {
			header = len(b)
		}
		n := min(len(fpdu), markerSpacing-int(m.At%markerSpacing))
		if len(fpdu) > CRCSize {
			n = min(n, len(fpdu)-CRCSize)
		} else if m.CRC {
			b = appendCRC(b, UpdateCRC(0, b[start:]))
			m.At += CRCSize
			break
		}
		b = append(b, fpdu[:n]...)
		fpdu = fpdu[n:]
		m.At += uint64(n)
	}
	return b
}

// Unmark appends the first frame of b to clean, without markers, and returns the number
// of bytes of b that it used: 0 if b has only a part of the frame. A frame with a wrong
// CRC gets a wrong CRC in clean too.
//
// It fails if a marker and the frame's length disagree.
//
// Source: [RFC 5044 §4.3], [RFC 5044 §8]
func (m *Marker) Unmark(clean, b []byte) ([]byte, int, error) {
	start, at, header, need := len(clean), 0, -1, FPDUHeaderSize
	for left := need; left > 0; {
		if (m.At+uint64(at))%markerSpacing == 0 {
			if len(b) < at+markerSize {
				return clean[:start], 0, nil
			}
			distance := 0
			if header >= 0 {
				distance = at - header
			}
			if int(binary.BigEndian.Uint16(b[at+2:])) != distance {
				return clean[:start], 0, errMarker
			}
			at += markerSize
		}
		if header < 0 {
			header = at
		}
		n := min(left, markerSpacing-int((m.At+uint64(at))%markerSpacing))
		if len(b) < at+n {
			return clean[:start], 0, nil
		}
		clean = append(clean, b[at:at+n]...)
		at, left = at+n, left-n
		if need == FPDUHeaderSize && left == 0 {
			need = FPDUSize(int(binary.BigEndian.Uint16(clean[start:])))
			left = need - FPDUHeaderSize
		}
	}
	if end := len(clean) - CRCSize; m.CRC {
		sum := UpdateCRC(0, clean[start:end])
		if !CheckFPDU(b[:at]) {
			sum = ^sum
		}
		binary.LittleEndian.PutUint32(clean[end:], sum)
	}
	m.At += uint64(at)
	return clean, at, nil
}

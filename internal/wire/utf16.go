package wire

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Fixed sizes of the names in NEGOTIATE, in UTF-16 units.
//
// Source: [OP-16]
const (
	maxHostName     = 256
	maxProviderName = 64
)

// appendName appends s in units UTF-16 units, padded with NUL.
//
// Source: [OP-16]
func appendName(b []byte, message, s string, units int) ([]byte, error) {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return nil, cut(message, "name %q is not text", s)
	}
	u := utf16.Encode([]rune(s))
	if len(u) > units {
		return nil, cut(message, "name %q has %d units where %d fit", s, len(u), units)
	}
	b = appendUnits(b, u)
	return append(b, make([]byte, 2*(units-len(u)))...), nil
}

func appendUnits(b []byte, u []uint16) []byte {
	for _, v := range u {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

// name reads a name of units UTF-16 units, up to its first NUL if it has one; further units are
// ignored. A name that is not valid UTF-16 fails.
//
// Source: [OP-16]
func (c *cursor) name(units int) string {
	s, ok := decodeUTF16(c.take(2 * units))
	if !ok {
		c.failed = true
	}
	return s
}

// decodeUTF16 decodes little-endian UTF-16 up to its first NUL.
func decodeUTF16(b []byte) (s string, ok bool) {
	if len(b)%2 != 0 {
		return "", false
	}
	u := make([]uint16, 0, len(b)/2)
	for ; len(b) > 0; b = b[2:] {
		v := binary.LittleEndian.Uint16(b)
		if v == 0 {
			break
		}
		u = append(u, v)
	}
	return string(utf16.Decode(u)), validUTF16(u)
}

// validUTF16 reports whether every surrogate has its partner.
func validUTF16(u []uint16) bool {
	for i := 0; i < len(u); i++ {
		if !utf16.IsSurrogate(rune(u[i])) {
			continue
		}
		if i+1 == len(u) || utf16.DecodeRune(rune(u[i]), rune(u[i+1])) == utf8.RuneError {
			return false
		}
		i++
	}
	return true
}

package smbauth

import (
	"encoding/binary"
	"unicode"
	"unicode/utf16"
)

// appendUTF16 appends s to b in UTF-16LE without a terminator.
func appendUTF16(b []byte, s string) []byte {
	for _, r := range s {
		if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
			b = binary.LittleEndian.AppendUint16(b, uint16(r1))
			b = binary.LittleEndian.AppendUint16(b, uint16(r2))
			continue
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(r))
	}
	return b
}

// utf16String decodes UTF-16LE; an odd last byte is refused.
func utf16String(b []byte) (string, bool) {
	if len(b)%2 != 0 {
		return "", false
	}
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(u)), true
}

// upper maps each character on its own to upper case, as NTLM does for user names.
//
// Source: [MS-NLMP 6] (UpperCase)
func upper(s string) string {
	r := []rune(s)
	for i := range r {
		r[i] = unicode.ToUpper(r[i])
	}
	return string(r)
}

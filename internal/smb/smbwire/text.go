package smbwire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxText is the longest text that a 16-bit length can describe, in bytes.
const maxText = 1<<16 - 2

// AppendUTF16 appends s in UTF-16LE, without an end mark.
//
// Errors: ErrName for invalid UTF-8, NUL, or more than 65534 bytes; b is then
// returned as it was.
//
// Source: [MS-SMB2 2.2], [MS-FSCC 2.1.5]
func AppendUTF16(b []byte, s string) ([]byte, error) {
	start := len(b)
	for i, r := range s {
		if r == 0 || r == utf8.RuneError && !isReplacement(s[i:]) {
			return b[:start], fault("text", "", ErrName)
		}
		if r < 0x10000 {
			b = le.AppendUint16(b, uint16(r))
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		b = le.AppendUint16(b, uint16(hi))
		b = le.AppendUint16(b, uint16(lo))
	}
	if len(b)-start > maxText {
		return b[:start], fault("text", "", ErrName)
	}
	return b, nil
}

// isReplacement reports whether s begins with a replacement character of the text, and not
// with an invalid byte.
func isReplacement(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size > 1
}

// UTF16 returns s in UTF-16LE, in new memory.
func UTF16(s string) ([]byte, error) {
	return AppendUTF16(make([]byte, 0, 2*len(s)), s)
}

// DecodeUTF16 translates UTF-16LE. Text without an exact counterpart is refused, not
// replaced.
//
// Errors: ErrName for NUL, an unpaired surrogate, or an odd number of bytes.
func DecodeUTF16(b []byte) (string, error) {
	if len(b)%2 != 0 {
		return "", fault("text", "", ErrName)
	}
	s := make([]byte, 0, len(b)/2+8)
	for ; len(b) > 0; b = b[2:] {
		r := rune(le.Uint16(b))
		switch {
		case r == 0:
			return "", fault("text", "", ErrName)
		case utf16.IsSurrogate(r):
			if len(b) < 4 {
				return "", fault("text", "", ErrName)
			}
			if r = utf16.DecodeRune(r, rune(le.Uint16(b[2:]))); r == utf8.RuneError {
				return "", fault("text", "", ErrName)
			}
			b = b[2:]
		}
		s = utf8.AppendRune(s, r)
	}
	return string(s), nil
}

package smbauth

import "fmt"

// DER tags that SPNEGO uses.
const (
	derOctetString = 0x04
	derOID         = 0x06
	derEnumerated  = 0x0A
	derSequence    = 0x30
	derApp0        = 0x60 // [APPLICATION 0], the GSS-API frame; add the number for others
	derContext     = 0xA0 // [0], constructed; add the number
)

// derMaxLength bounds an element, in bytes. The limit of a security buffer in SMB is 65535.
const derMaxLength = 1 << 16

// derNext splits the first element of b into tag, content and the rest. It accepts only
// single-byte tags and definite, shortest-form lengths.
func derNext(b []byte) (tag byte, content, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, nil, fmt.Errorf("DER element of %d bytes: %w", len(b), ErrToken)
	}
	tag, n, head := b[0], int(b[1]), 2
	if tag&0x1F == 0x1F {
		return 0, nil, nil, fmt.Errorf("DER tag of several bytes: %w", ErrToken)
	}
	if n >= 0x80 {
		k := n & 0x7F
		if k == 0 || k > 3 || len(b) < 2+k || b[2] == 0 {
			return 0, nil, nil, fmt.Errorf("DER length of form %#x: %w", n, ErrToken)
		}
		n, head = 0, 2+k
		for _, c := range b[2:head] {
			n = n<<8 | int(c)
		}
		if n < 0x80 {
			return 0, nil, nil, fmt.Errorf("DER length %d in long form: %w", n, ErrToken)
		}
	}
	if n > derMaxLength || n > len(b)-head {
		return 0, nil, nil, fmt.Errorf("DER element of %d bytes, %d left: %w", n, len(b)-head, ErrToken)
	}
	return tag, b[head : head+n : head+n], b[head+n:], nil
}

// derOnly returns the content of the single element of b.
func derOnly(b []byte, want byte) ([]byte, error) {
	tag, content, rest, err := derNext(b)
	if err != nil {
		return nil, err
	}
	if tag != want || len(rest) != 0 {
		return nil, fmt.Errorf("DER tag %#x with %d bytes after it, wanted %#x alone: %w", tag, len(rest), want, ErrToken)
	}
	return content, nil
}

// derAppend appends one element.
func derAppend(b []byte, tag byte, content []byte) []byte {
	b = append(b, tag)
	switch n := len(content); {
	case n < 0x80:
		b = append(b, byte(n))
	case n < 0x100:
		b = append(b, 0x81, byte(n))
	case n < 0x10000:
		b = append(b, 0x82, byte(n>>8), byte(n))
	default:
		b = append(b, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	return append(b, content...)
}

// derWrap encloses content in elements, the innermost tag last.
func derWrap(content []byte, tags ...byte) []byte {
	for i := len(tags) - 1; i >= 0; i-- {
		content = derAppend(nil, tags[i], content)
	}
	return content
}

package smbauth

import (
	"encoding/binary"
	"fmt"
)

// ntlmSignature begins every NTLM message.
const ntlmSignature = "NTLMSSP\x00"

// NTLM message types.
//
// Source: [MS-NLMP 2.2.1]
const (
	ntlmNegotiate    = 1
	ntlmChallenge    = 2
	ntlmAuthenticate = 3
)

// NTLM negotiate flags that this package sends or checks.
//
// Source: [MS-NLMP 2.2.2.5]
const (
	flagUnicode          = 0x00000001
	flagRequestTarget    = 0x00000004
	flagSign             = 0x00000010
	flagSeal             = 0x00000020
	flagNTLM             = 0x00000200
	flagAnonymous        = 0x00000800
	flagDomainSupplied   = 0x00001000
	flagWorkstation      = 0x00002000
	flagAlwaysSign       = 0x00008000
	flagTargetTypeServer = 0x00020000
	flagExtendedSession  = 0x00080000
	flagTargetInfo       = 0x00800000
	flagVersion          = 0x02000000
	flag128              = 0x20000000
	flagKeyExchange      = 0x40000000
	flag56               = 0x80000000

	// requiredFlags are the flags that every logon must have.
	requiredFlags = flagUnicode | flagNTLM | flagExtendedSession | flag128
)

// ntlmVersion is the VERSION structure that is sent: 6.1, build 7600, NTLMSSP revision 15.
// Peers only print it.
//
// Source: [MS-NLMP 2.2.2.10]
var ntlmVersion = [8]byte{6, 1, 0xB0, 0x1D, 0, 0, 0, 15}

// Sizes of the fixed parts, in bytes.
const (
	negotiateMinSize    = 32
	negotiateSize       = 40
	challengeMinSize    = 48
	challengeSize       = 56
	authenticateMinSize = 64
	authenticateMICOff  = 72
	authenticateSize    = 88
)

// isNTLM reports whether b begins with the signature of an NTLM message.
func isNTLM(b []byte) bool { return len(b) >= 8 && string(b[:8]) == ntlmSignature }

// checkNTLM verifies signature, type and least length of an NTLM message.
func checkNTLM(b []byte, typ uint32, minSize int) error {
	if !isNTLM(b) || len(b) < minSize {
		return fmt.Errorf("NTLM message %d of %d bytes, at least %d wanted: %w", typ, len(b), minSize, ErrToken)
	}
	if got := binary.LittleEndian.Uint32(b[8:]); got != typ {
		return fmt.Errorf("NTLM message type %d, wanted %d: %w", got, typ, ErrToken)
	}
	return nil
}

// ntlmField returns the bytes named by the {length, maximum length, offset} triple at off.
// They lie inside b and not before minOff.
func ntlmField(b []byte, off, minOff int) ([]byte, error) {
	n := int64(binary.LittleEndian.Uint16(b[off:]))
	at := int64(binary.LittleEndian.Uint32(b[off+4:]))
	if n == 0 {
		return nil, nil
	}
	if at < int64(minOff) || at+n > int64(len(b)) {
		return nil, fmt.Errorf("NTLM field at %d points to [%d,%d) of %d bytes: %w", off, at, at+n, len(b), ErrToken)
	}
	return b[at : at+n : at+n], nil
}

// appendNTLMHead appends signature and message type.
func appendNTLMHead(b []byte, typ uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, ntlmSignature...), typ)
}

// appendNTLMField appends the triple for n bytes at off.
func appendNTLMField(b []byte, n, off int) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	return binary.LittleEndian.AppendUint32(b, uint32(off))
}

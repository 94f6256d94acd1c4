package wire

import (
	"encoding/binary"
	"unicode/utf16"
)

// resumeKeyFixed is the size of a resume key before its context, in bytes.
const resumeKeyFixed = 28

// ResumeKey is the answer to FSCTL_SRV_REQUEST_RESUME_KEY as an LWIO client reads it. Package
// smbwire encodes it.
//
//	0 ResumeKey u64, Timestamp u64, Pid u64   24 ContextLength u32   28 Context
//
// Source: [LWIO §Discovery], [LWIO claim 8], [MS-SMB2 2.2.32.3], [OP-31], [OP-32]
type ResumeKey struct {
	// Key names the open; its three parts mean nothing to a client.
	Key [24]byte
	// Context is the UNC name of the LWIO pipe, UTF-16LE without a NUL on the wire;
	// empty if the server has no LWIO. [OP-30]
	Context string
}

// DecodeResumeKey decodes the answer in the published layout. Without context, further bytes
// are ignored.
//
// Errors: *Error: too short, or a context that is cut off, not text, or followed by more than
// padding to 8.
//
// Source: [LWIO §Discovery], [MS-SMB2 2.2.32.3], [OP-30], [OP-31], [OP-32], [OP-33]
func DecodeResumeKey(b []byte) (ResumeKey, error) {
	if len(b) < resumeKeyFixed {
		return ResumeKey{}, wrongSize(resumeKey, len(b), resumeKeyFixed)
	}
	context, ok := decodeContext(b[resumeKeyFixed:], uint64(binary.LittleEndian.Uint32(b[24:])))
	if !ok {
		return ResumeKey{}, cut(resumeKey, "the context does not fit %d bytes, or is not text", len(b))
	}
	return ResumeKey{Key: [24]byte(b), Context: context}, nil
}

// decodeContext decodes a context of n bytes at the beginning of b.
func decodeContext(b []byte, n uint64) (string, bool) {
	if n == 0 {
		return "", true
	}
	if n > uint64(len(b)) || uint64(len(b))-n >= 8 {
		return "", false
	}
	s, ok := decodeUTF16(b[:n])
	return s, ok && 2*len(utf16.Encode([]rune(s))) == int(n)
}

// resumeKey is the name of the structure in errors.
const resumeKey = "resume key"

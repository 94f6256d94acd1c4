package wire

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ResumeKeySize is the size of a resume key without context: what a client that
// knows nothing of LWIO asks for, in bytes.
//
// Source: [OP-33], [MS-SMB2 2.2.32.3]
const ResumeKeySize = 32

const (
	resumeKeyContext      = 28
	resumeKeyContextShort = 26
)

// ResumeKey is the answer to FSCTL_SRV_REQUEST_RESUME_KEY.
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

// AppendTo appends the answer to b in the published layout. Without context 4
// zero bytes follow, as Windows has it.
//
// Errors: *Error for a context that is not text.
//
// Source: [LWIO §Discovery], [MS-SMB2 2.2.32.3], [OP-31], [OP-33]
func (k *ResumeKey) AppendTo(b []byte) ([]byte, error) {
	if !utf8.ValidString(k.Context) || strings.ContainsRune(k.Context, 0) {
		return nil, cut(resumeKey, "context %q is not text", k.Context)
	}
	u := utf16.Encode([]rune(k.Context))
	b = append(b, k.Key[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*len(u)))
	if len(u) == 0 {
		return append(b, 0, 0, 0, 0), nil
	}
	return appendUnits(b, u), nil
}

// DecodeResumeKey decodes the answer in the published layout. With short the
// layout of the protocol's text is taken too, which has a ContextLength of 16 bits,
// so that Context begins at 26. Without context whatever follows is ignored.
//
// Errors: *Error: too short, a context that is cut off, followed by more than
// padding to 8, or not text.
//
// Source: [LWIO §Discovery], [MS-SMB2 2.2.32.3], [OP-30], [OP-31], [OP-32]
func DecodeResumeKey(b []byte, short bool) (ResumeKey, error) {
	if len(b) < resumeKeyContext && !(short && len(b) >= resumeKeyContextShort) {
		return ResumeKey{}, wrongSize(resumeKey, len(b), resumeKeyContext)
	}
	k := ResumeKey{Key: [24]byte(b)}
	if len(b) >= resumeKeyContext {
		if s, ok := decodeContext(b[resumeKeyContext:], uint64(binary.LittleEndian.Uint32(b[24:]))); ok {
			k.Context = s
			return k, nil
		}
	}
	if short {
		if s, ok := decodeContext(b[resumeKeyContextShort:], uint64(binary.LittleEndian.Uint16(b[24:]))); ok {
			k.Context = s
			return k, nil
		}
	}
	return ResumeKey{}, cut(resumeKey, "the context does not fit %d bytes, or is not text", len(b))
}

// decodeContext decodes a context of n bytes that begins at b.
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

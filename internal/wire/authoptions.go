package wire

import "encoding/binary"

// The codes of the options of AUTH_PARAMS. From 0x80 they are extensions of this
// implementation; unknown ones are skipped by their length.
//
// Source: [LWIO §Connection Authentication], [OP-46], [OP-46b], [OP-46c], [OP-112], [OP-114b], [OP-116]
const (
	optionEnd             = 0
	optionKey             = 1
	optionSessionID       = 2
	optionSignature       = 3
	optionKeyed           = 0x80
	optionPreviousSession = 0x81
	optionBinding         = 0x82
	optionSeal            = 0x83
	optionExtensions      = 0x84
)

const (
	nonceSize     = 16
	macSize       = 32
	signatureSize = 16
)

// KeyedOption is option 0x80: proof that the sender has a key that never was on
// the RDMA connection.
//
//	0 Nonce 16 bytes   16 MAC 32 bytes
//
// Source: [OP-46b]
type KeyedOption struct {
	// Nonce is random and new in every AUTH.
	Nonce [16]byte
	// MAC is an HMAC-SHA-256; see SignKeyed.
	MAC [32]byte
}

// optionSize is the length that an option must have, and whether it is known.
func optionSize(code uint8) (size int, known bool) {
	switch code {
	case optionKey:
		return 16, true
	case optionSignature:
		return signatureSize, true
	case optionSessionID, optionPreviousSession:
		return 8, true
	case optionKeyed:
		return nonceSize + macSize, true
	case optionBinding:
		return BindingSize, true
	case optionSeal:
		return 1, true
	case optionExtensions:
		return extensionsSize, true
	}
	return 0, false
}

// appendOptions appends the options that are there, and the end.
//
// Source: [LWIO §Connection Authentication], [OP-50a]
func (p *AuthParams) appendOptions(b []byte) []byte {
	if p.Key != nil {
		b = append(append(b, optionKey, 16), p.Key[:]...)
	}
	if p.SessionID != nil {
		b = append(append(b, optionSessionID, 8), p.SessionID[:]...)
	}
	if p.PreviousSessionID != nil {
		b = append(append(b, optionPreviousSession, 8), p.PreviousSessionID[:]...)
	}
	if p.Binding != nil {
		b = append(append(b, optionBinding, BindingSize), p.Binding[:]...)
	}
	if p.Seal != 0 {
		b = append(b, optionSeal, 1, byte(p.Seal))
	}
	if p.Extensions != 0 {
		b = binary.LittleEndian.AppendUint32(append(b, optionExtensions, extensionsSize), uint32(p.Extensions))
	}
	if p.Keyed != nil {
		b = append(append(b, optionKeyed, nonceSize+macSize), p.Keyed.Nonce[:]...)
		b = append(b, p.Keyed.MAC[:]...)
	}
	if p.Signature != nil {
		b = append(append(b, optionSignature, signatureSize), p.Signature[:]...)
	}
	return append(b, optionEnd)
}

// setOption keeps a copy of the value of an option; unknown ones are skipped.
func (p *AuthParams) setOption(code uint8, value []byte) {
	switch code {
	case optionKey:
		p.Key = (*[16]byte)(append([]byte(nil), value...))
	case optionSessionID:
		p.SessionID = (*[8]byte)(append([]byte(nil), value...))
	case optionSignature:
		p.Signature = (*[16]byte)(append([]byte(nil), value...))
	case optionKeyed:
		p.Keyed = &KeyedOption{Nonce: [16]byte(value[:nonceSize]), MAC: [32]byte(value[nonceSize:])}
	case optionPreviousSession:
		p.PreviousSessionID = (*[8]byte)(append([]byte(nil), value...))
	case optionBinding:
		p.Binding = (*[BindingSize]byte)(append([]byte(nil), value...))
	case optionSeal:
		p.Seal = SealSuites(value[0])
	case optionExtensions:
		p.Extensions = Extensions(binary.LittleEndian.Uint32(value))
	}
}

// optionWalker walks over the options of encoded parameters.
type optionWalker struct {
	b     []byte
	at    int // index of the current option's code
	then  int // index of the next one's
	code  uint8
	value []byte
	seen  [256 / 8]uint8
	err   error
}

func walkOptions(params []byte) optionWalker {
	return optionWalker{b: params, then: authFixedSize}
}

// next goes to the next option. It returns false at the end, and at an error,
// which err then holds.
//
// Source: [OP-46], [OP-50a], [OP-50b]
func (w *optionWalker) next() bool {
	w.at = w.then
	if w.at >= len(w.b) {
		w.err = deny(authParams, "no end of the options")
		return false
	}
	w.code = w.b[w.at]
	if w.code == optionEnd {
		if extra := len(w.b) - w.at - 1; extra != 0 {
			w.err = deny(authParams, "%d bytes after the end of the options", extra)
		}
		return false
	}
	if w.at+2 > len(w.b) || w.at+2+int(w.b[w.at+1]) > len(w.b) {
		w.err = deny(authParams, "option 0x%02X is cut off", w.code)
		return false
	}
	w.then = w.at + 2 + int(w.b[w.at+1])
	w.value = w.b[w.at+2 : w.then]
	if size, known := optionSize(w.code); known && len(w.value) != size {
		w.err = deny(authParams, "option 0x%02X of %d bytes instead of %d", w.code, len(w.value), size)
		return false
	}
	if w.seen[w.code/8]&(1<<(w.code%8)) != 0 {
		w.err = deny(authParams, "option 0x%02X twice", w.code)
		return false
	}
	w.seen[w.code/8] |= 1 << (w.code % 8)
	return true
}

package smbwire

// TransformHeaderSize is the length of the header of an encrypted message, in bytes.
const TransformHeaderSize = 52

// transformEncrypted is the only value of the last field but one: Flags in dialect 3.1.1
// (the message is encrypted), EncryptionAlgorithm below it (AES-128-CCM).
const transformEncrypted = 0x0001

// Offsets of the fields of a transform header.
const (
	offTransformSignature = 4
	offTransformNonce     = 20
	offTransformSize      = 36
	offTransformFlags     = 42
	offTransformSessionID = 44
)

// TransformHeader is the header of an encrypted message. The encrypted bytes follow: a
// message or a compound, with its SMB2 headers. The signature covers them, and the header
// from its nonce on.
//
// Source: [MS-SMB2 2.2.41]
type TransformHeader struct {
	// Signature is the tag of the cipher.
	Signature [16]byte
	// Nonce begins with the nonce of the cipher. The bytes behind the nonce are zero.
	Nonce [16]byte
	// OriginalMessageSize is the length of the message, in bytes.
	OriginalMessageSize uint32
	SessionID           uint64
}

// Put writes the header into the first TransformHeaderSize bytes of b. Precondition: b has
// as many.
func (h *TransformHeader) Put(b []byte) {
	_ = b[TransformHeaderSize-1]
	le.PutUint32(b, protocolTransform)
	copy(b[offTransformSignature:], h.Signature[:])
	copy(b[offTransformNonce:], h.Nonce[:])
	le.PutUint32(b[offTransformSize:], h.OriginalMessageSize)
	le.PutUint16(b[offTransformSize+4:], 0)
	le.PutUint16(b[offTransformFlags:], transformEncrypted)
	le.PutUint64(b[offTransformSessionID:], h.SessionID)
}

// AppendTo appends the header.
func (h *TransformHeader) AppendTo(b []byte) []byte {
	var raw [TransformHeaderSize]byte
	h.Put(raw[:])
	return append(b, raw[:]...)
}

// IsEncrypted reports whether a message is an encrypted one, by its first four bytes.
func IsEncrypted(b []byte) bool { return len(b) >= 4 && le.Uint32(b) == protocolTransform }

// DecodeTransformHeader decodes the header at the start of b.
//
// Errors: ErrProtocol for any other message, ErrShort, ErrValue.
func DecodeTransformHeader(b []byte) (TransformHeader, error) {
	const name = "transform header"
	switch {
	case len(b) < TransformHeaderSize:
		return TransformHeader{}, fault(name, "", ErrShort)
	case le.Uint32(b) != protocolTransform:
		return TransformHeader{}, fault(name, "ProtocolId", ErrProtocol)
	case le.Uint16(b[offTransformFlags:]) != transformEncrypted:
		return TransformHeader{}, fault(name, "Flags", ErrValue)
	}
	return TransformHeader{
		Signature:           [16]byte(b[offTransformSignature:]),
		Nonce:               [16]byte(b[offTransformNonce:]),
		OriginalMessageSize: le.Uint32(b[offTransformSize:]),
		SessionID:           le.Uint64(b[offTransformSessionID:]),
	}, nil
}

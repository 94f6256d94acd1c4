package wire

import "encoding/binary"

// authFixedSize is the size of AUTH_PARAMS before its options, in bytes.
//
// Source: [OP-11]
const authFixedSize = 30

// AuthParams is AUTH_PARAMS, by which each side of a connection describes itself.
//
//	 0 Magic "LWIO"            4 RevId u16             6 Endian u16
//	 8 PageSize u16           10 BaseSequence u16
//	12 MaxRdmaWindowSize u32  16 MaxSendBufferSize u32  20 MaxRecvBufferSize u32
//	24 HeaderSize u16         26 Credits u16            28 RdmaReadSupported u16
//	30 options: code u8, length u8, value; the last is the code 0 alone
//
// An option that is nil is absent. AppendTo writes them in the order Key, SessionID,
// PreviousSessionID, Binding, Seal, Extensions, Keyed, Signature; receivers take any order.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-46b], [OP-46c], [OP-50b], [OP-112], [OP-114b], [OP-116]
type AuthParams struct {
	RevID uint16
	// Endian is the size of the sender's pointers, in bytes. [OP-13]
	Endian uint16
	// PageSize is the sender's page size, in bytes. [OP-28]
	PageSize uint16
	// BaseSequence is 0 from the client, and the client's plus 1 from the server.
	BaseSequence uint16
	// MaxRdmaWindowSize is from the client the most bytes of one RDMA Write, from
	// the server the most bytes of one READ. [OP-60]
	MaxRdmaWindowSize uint32
	// MaxSendBufferSize is for information. [OP-62]
	MaxSendBufferSize uint32
	// MaxRecvBufferSize is the most bytes after the header of one message. [OP-61]
	MaxRecvBufferSize uint32
	// HeaderSize is the size of the common header. [OP-50h]
	HeaderSize uint16
	// Credits is the number of credits wanted or granted. [OP-50e]
	Credits uint16
	// RdmaReadSupported is 1 or 0, for information. [OP-50f]
	RdmaReadSupported uint16

	// Key is the other side's key of NEGOTIATE. Option 1.
	Key *[16]byte
	// SessionID is the server's name for the connection. Option 2.
	SessionID *[8]byte
	// Signature is the MD5 of the rest. Option 3.
	Signature *[16]byte
	// Keyed proves the possession of a key from the SMB session. Option 0x80.
	Keyed *KeyedOption
	// PreviousSessionID names a connection that this one replaces. Option 0x81.
	PreviousSessionID *[8]byte
	// Binding names the connection; see ConnectionStart. Option 0x82.
	Binding *[BindingSize]byte
	// Seal has the suites that the client offers, or the suite that the server chose; 0 for none.
	// Option 0x83.
	Seal SealSuites
	// Extensions are the extensions of messages that the client offers, or that the server accepts of them.
	// Option 0x84.
	Extensions Extensions
}

// AppendTo appends the parameters to b, options included. Signatures are encoded
// as they are: see SignKeyed and SignMD5.
func (p *AuthParams) AppendTo(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, p.RevID)
	b = binary.LittleEndian.AppendUint16(b, p.Endian)
	b = binary.LittleEndian.AppendUint16(b, p.PageSize)
	b = binary.LittleEndian.AppendUint16(b, p.BaseSequence)
	b = binary.LittleEndian.AppendUint32(b, p.MaxRdmaWindowSize)
	b = binary.LittleEndian.AppendUint32(b, p.MaxSendBufferSize)
	b = binary.LittleEndian.AppendUint32(b, p.MaxRecvBufferSize)
	b = binary.LittleEndian.AppendUint16(b, p.HeaderSize)
	b = binary.LittleEndian.AppendUint16(b, p.Credits)
	b = binary.LittleEndian.AppendUint16(b, p.RdmaReadSupported)
	return p.appendOptions(b)
}

// DecodeAuthParams decodes parameters and their options. The result does not
// refer to b. Only unreadable parameters are an error; the Check methods validate the rest.
//
// Errors: *Error with ACCESS_DENIED, which ends the connection: too short, another
// magic, an option of a wrong length, a repeated option, no end or bytes after it.
//
// Source: [LWIO §Connection Authentication], [OP-50a], [OP-50b]
func DecodeAuthParams(b []byte) (AuthParams, error) {
	if len(b) < authFixedSize {
		return AuthParams{}, deny(authParams, "%d bytes instead of at least %d", len(b), authFixedSize)
	}
	if string(b[:4]) != magic {
		return AuthParams{}, deny(authParams, "begin with % x instead of %q", b[:4], magic)
	}
	p := AuthParams{
		RevID:             binary.LittleEndian.Uint16(b[4:]),
		Endian:            binary.LittleEndian.Uint16(b[6:]),
		PageSize:          binary.LittleEndian.Uint16(b[8:]),
		BaseSequence:      binary.LittleEndian.Uint16(b[10:]),
		MaxRdmaWindowSize: binary.LittleEndian.Uint32(b[12:]),
		MaxSendBufferSize: binary.LittleEndian.Uint32(b[16:]),
		MaxRecvBufferSize: binary.LittleEndian.Uint32(b[20:]),
		HeaderSize:        binary.LittleEndian.Uint16(b[24:]),
		Credits:           binary.LittleEndian.Uint16(b[26:]),
		RdmaReadSupported: binary.LittleEndian.Uint16(b[28:]),
	}
	w := walkOptions(b)
	for w.next() {
		p.setOption(w.code, w.value)
	}
	if w.err != nil {
		return AuthParams{}, w.err
	}
	return p, nil
}

// authParams is the name of the structure in errors.
const authParams = "AUTH_PARAMS"

package wire

import "encoding/binary"

// FIDParamsSize is the size of FID_PARAMS, in bytes.
//
// Source: [OP-11]
const FIDParamsSize = 36

// NoIntermediateBuffering is the create option that a file needs for collapsed
// writes.
//
// Source: [LWIO §Vectored Write], [OP-51]
const NoIntermediateBuffering = 0x8

// FIDParams is FID_PARAMS, the body of REGISTER.
//
//	0 ResumeKey 24 bytes   24 SessionId 8 bytes   32 FlagsAndAttributes u32
//
// Source: [LWIO §File Registration], [LWIO claim 11], [OP-50i], [OP-51], [OP-52b]
type FIDParams struct {
	// ResumeKey is the resume key of the open, from SMB.
	ResumeKey [24]byte
	// SessionID is the server's name for this connection, from AUTH.
	SessionID [8]byte
	// FlagsAndAttributes are the create options of the open; the server uses its own record of
	// them.
	FlagsAndAttributes uint32
}

// AppendTo appends the 36 bytes of the parameters to b.
func (p *FIDParams) AppendTo(b []byte) []byte {
	b = append(b, p.ResumeKey[:]...)
	b = append(b, p.SessionID[:]...)
	return binary.LittleEndian.AppendUint32(b, p.FlagsAndAttributes)
}

// DecodeFIDParams decodes the body of a REGISTER message.
//
// Errors: *Error, which ends the connection, unless b has exactly 36 bytes.
func DecodeFIDParams(b []byte) (FIDParams, error) {
	if len(b) != FIDParamsSize {
		return FIDParams{}, wrongSize("FID_PARAMS", len(b), FIDParamsSize)
	}
	return FIDParams{
		ResumeKey:          [24]byte(b),
		SessionID:          [8]byte(b[24:]),
		FlagsAndAttributes: binary.LittleEndian.Uint32(b[32:]),
	}, nil
}

// NewRegister makes the header of a REGISTER message. FID_PARAMS follow it.
//
// Source: [LWIO §File Registration], [LWIO claim 10], [OP-26]
func NewRegister() Header { return control(OpRegister, HeaderSize+FIDParamsSize) }

// RegisteredFid is the file id in a server's answer to REGISTER.
//
// Errors: *Error, which ends the connection, unless it is in 1 to 65535.
//
// Source: [LWIO §File Registration], [OP-29], [OP-54]
func RegisteredFid(information uint32) (uint16, error) {
	if information == 0 || information > 0xFFFF {
		return 0, cut("REGISTER", "file id %d", information)
	}
	return uint16(information), nil
}

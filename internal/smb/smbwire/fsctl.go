package smbwire

// Control codes of IOCTL.
//
// Source: [MS-SMB2 2.2.31], [MS-FSCC 2.3]
const (
	FsctlDFSGetReferrals           uint32 = 0x00060194
	FsctlCreateOrGetObjectID       uint32 = 0x000900C0
	FsctlPipeWait                  uint32 = 0x00110018
	FsctlPipeTransceive            uint32 = 0x0011C017
	FsctlSrvRequestResumeKey       uint32 = 0x00140078
	FsctlSrvCopyChunk              uint32 = 0x001440F2
	FsctlSrvCopyChunkWrite         uint32 = 0x001480F2
	FsctlQueryNetworkInterfaceInfo uint32 = 0x001401FC
	FsctlValidateNegotiateInfo     uint32 = 0x00140204
)

const (
	validateRequestFixed = 24
	validateResponseSize = 24
)

// ValidateNegotiateRequest repeats the values of the client's NEGOTIATE in a signed message.
//
// Source: [MS-SMB2 2.2.31.4]
type ValidateNegotiateRequest struct {
	Capabilities uint32
	GUID         [16]byte
	SecurityMode uint16
	Dialects     []uint16
}

// AppendTo appends the input of the IOCTL.
func (r *ValidateNegotiateRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, r.Capabilities)
	b = append(b, r.GUID[:]...)
	b = le.AppendUint16(b, r.SecurityMode)
	b = le.AppendUint16(b, uint16(len(r.Dialects)))
	return appendUint16s(b, r.Dialects)
}

// DecodeValidateNegotiateRequest decodes the input of the IOCTL.
func DecodeValidateNegotiateRequest(b []byte) (ValidateNegotiateRequest, error) {
	const name = "VALIDATE_NEGOTIATE_INFO request"
	if len(b) < validateRequestFixed {
		return ValidateNegotiateRequest{}, fault(name, "", ErrShort)
	}
	n := int(le.Uint16(b[22:]))
	if len(b) < validateRequestFixed+2*n {
		return ValidateNegotiateRequest{}, fault(name, "DialectCount", ErrShort)
	}
	return ValidateNegotiateRequest{
		Capabilities: le.Uint32(b),
		GUID:         [16]byte(b[4:20]),
		SecurityMode: le.Uint16(b[20:]),
		Dialects:     uint16s(b[validateRequestFixed:], n),
	}, nil
}

// ValidateNegotiateResponse repeats the choices of the server.
//
// Source: [MS-SMB2 2.2.32.6]
type ValidateNegotiateResponse struct {
	Capabilities uint32
	GUID         [16]byte
	SecurityMode uint16
	Dialect      uint16
}

// AppendTo appends the output of the IOCTL.
func (r *ValidateNegotiateResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, r.Capabilities)
	b = append(b, r.GUID[:]...)
	b = le.AppendUint16(b, r.SecurityMode)
	return le.AppendUint16(b, r.Dialect)
}

// DecodeValidateNegotiateResponse decodes the output of the IOCTL, whose length
// must be exact.
func DecodeValidateNegotiateResponse(b []byte) (ValidateNegotiateResponse, error) {
	const name = "VALIDATE_NEGOTIATE_INFO response"
	switch {
	case len(b) < validateResponseSize:
		return ValidateNegotiateResponse{}, fault(name, "", ErrShort)
	case len(b) > validateResponseSize:
		return ValidateNegotiateResponse{}, fault(name, "", ErrValue)
	}
	return ValidateNegotiateResponse{
		Capabilities: le.Uint32(b),
		GUID:         [16]byte(b[4:20]),
		SecurityMode: le.Uint16(b[20:]),
		Dialect:      le.Uint16(b[22:]),
	}, nil
}

const (
	resumeKeyFixed = 28
	// ResumeKeySize is the room of plain clients for a resume key, in bytes. They get a key
	// without context, and four bytes of zero.
	ResumeKeySize = 32
)

// ResumeKey is the output of FSCTL_SRV_REQUEST_RESUME_KEY.
//
// Source: [MS-SMB2 2.2.32.3], [OP-31]
type ResumeKey struct {
	Key [24]byte
	// Context is the UNC of the LWIO pipe in UTF-16LE, empty if there is none.
	// [OP-32]
	Context []byte
}

// AppendTo appends the output of the IOCTL: never less than ResumeKeySize bytes.
func (r *ResumeKey) AppendTo(b []byte) []byte {
	b = append(b, r.Key[:]...)
	b = le.AppendUint32(b, uint32(len(r.Context)))
	b = append(b, r.Context...)
	return appendZeros(b, ResumeKeySize-resumeKeyFixed-len(r.Context))
}

// DecodeResumeKey decodes the output of the IOCTL.
func DecodeResumeKey(b []byte) (ResumeKey, error) {
	const name = "resume key"
	if len(b) < resumeKeyFixed {
		return ResumeKey{}, fault(name, "", ErrShort)
	}
	context, err := rest(name, "Context", b, resumeKeyFixed, le.Uint32(b[24:]))
	return ResumeKey{Key: [24]byte(b[:24]), Context: context}, err
}

const pipeWaitFixed = 14

// PipeWait is the input of FSCTL_PIPE_WAIT.
//
// Source: [MS-FSCC 2.3.49]
type PipeWait struct {
	Timeout          int64
	TimeoutSpecified bool
	// Name is UTF-16LE, without \pipe\.
	Name []byte
}

// DecodePipeWait decodes the input of the IOCTL.
func DecodePipeWait(b []byte) (PipeWait, error) {
	const name = "PIPE_WAIT"
	if len(b) < pipeWaitFixed {
		return PipeWait{}, fault(name, "", ErrShort)
	}
	pipe, err := rest(name, "Name", b, pipeWaitFixed, le.Uint32(b[8:]))
	return PipeWait{Timeout: int64(le.Uint64(b)), TimeoutSpecified: b[12] != 0, Name: pipe}, err
}

// States of a named pipe.
//
// Source: [MS-FSCC 2.3.46]
const ()

package smbwire

const (
	ioctlRequestFixed  = 56
	ioctlResponseFixed = 48
)

// IoctlIsFSCTL is the only flag of an IOCTL that is served.
const IoctlIsFSCTL uint32 = 0x00000001

// IoctlRequest is a control operation on a handle, or on the share if FileID is
// all ones.
//
// Source: [MS-SMB2 2.2.31]
type IoctlRequest struct {
	CtlCode           uint32
	FileID            FileID
	MaxInputResponse  uint32
	MaxOutputResponse uint32
	Flags             uint32
	Input             []byte
	// Output is used by no control code of this package.
	Output []byte
}

// AppendTo appends the body.
func (r *IoctlRequest) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, ioctlRequestFixed+1)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.CtlCode)
	b = r.FileID.appendTo(b)
	b = le.AppendUint32(b, HeaderSize+ioctlRequestFixed)
	b = le.AppendUint32(b, uint32(len(r.Input)))
	b = le.AppendUint32(b, r.MaxInputResponse)
	b = appendZeros(b, 8)
	b = le.AppendUint32(b, r.MaxOutputResponse)
	b = le.AppendUint32(b, r.Flags)
	b = le.AppendUint32(b, 0)
	b = append(b, r.Input...)
	if len(r.Output) > 0 {
		b = pad8(b, start)
		le.PutUint32(b[start+36:], offsetOf(b, start, len(r.Output)))
		le.PutUint32(b[start+40:], uint32(len(r.Output)))
		b = append(b, r.Output...)
	}
	return b
}

// DecodeIoctlRequest decodes a body.
func DecodeIoctlRequest(body []byte) (IoctlRequest, error) {
	const name = "IOCTL request"
	if err := checkBody(name, body, ioctlRequestFixed, ioctlRequestFixed+1); err != nil {
		return IoctlRequest{}, err
	}
	r := IoctlRequest{
		CtlCode:           le.Uint32(body[4:]),
		FileID:            fileID(body[8:]),
		MaxInputResponse:  le.Uint32(body[32:]),
		MaxOutputResponse: le.Uint32(body[44:]),
		Flags:             le.Uint32(body[48:]),
	}
	var err error
	if r.Input, err = span32(name, "Input", body, ioctlRequestFixed, 24); err != nil {
		return r, err
	}
	r.Output, err = span32(name, "Output", body, ioctlRequestFixed, 36)
	return r, err
}

// IoctlResponse carries the result of a control operation. Input is empty in practice.
//
// Source: [MS-SMB2 2.2.32]
type IoctlResponse struct {
	CtlCode uint32
	FileID  FileID
	Flags   uint32
	Input   []byte
	Output  []byte
}

// AppendTo appends the body. Output begins at a multiple of 8 behind Input.
func (r *IoctlResponse) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, ioctlResponseFixed+1)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.CtlCode)
	b = r.FileID.appendTo(b)
	b = le.AppendUint32(b, HeaderSize+ioctlResponseFixed)
	b = le.AppendUint32(b, uint32(len(r.Input)))
	b = appendZeros(b, 8)
	b = le.AppendUint32(b, r.Flags)
	b = le.AppendUint32(b, 0)
	b = append(b, r.Input...)
	if len(r.Output) > 0 {
		b = pad8(b, start)
	}
	le.PutUint32(b[start+32:], uint32(HeaderSize+len(b)-start))
	le.PutUint32(b[start+36:], uint32(len(r.Output)))
	return append(b, r.Output...)
}

// DecodeIoctlResponse decodes a body.
func DecodeIoctlResponse(body []byte) (IoctlResponse, error) {
	const name = "IOCTL response"
	if err := checkBody(name, body, ioctlResponseFixed, ioctlResponseFixed+1); err != nil {
		return IoctlResponse{}, err
	}
	r := IoctlResponse{CtlCode: le.Uint32(body[4:]), FileID: fileID(body[8:]), Flags: le.Uint32(body[40:])}
	var err error
	if r.Input, err = span32(name, "Input", body, ioctlResponseFixed, 24); err != nil {
		return r, err
	}
	r.Output, err = span32(name, "Output", body, ioctlResponseFixed, 32)
	return r, err
}

package smbwire

const (
	closeRequestFixed  = 24
	closeResponseFixed = 60
)

// ClosePostQueryAttributes asks for the attributes of the closed file.
const ClosePostQueryAttributes uint16 = 0x0001

// CloseRequest closes a handle.
//
// Source: [MS-SMB2 2.2.15]
type CloseRequest struct {
	Flags  uint16
	FileID FileID
}

// AppendTo appends the body.
func (r *CloseRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, closeRequestFixed)
	b = le.AppendUint16(b, r.Flags)
	b = le.AppendUint32(b, 0)
	return r.FileID.appendTo(b)
}

// DecodeCloseRequest decodes a body.
func DecodeCloseRequest(body []byte) (CloseRequest, error) {
	if err := checkBody("CLOSE request", body, closeRequestFixed, closeRequestFixed); err != nil {
		return CloseRequest{}, err
	}
	return CloseRequest{Flags: le.Uint16(body[2:]), FileID: fileID(body[8:])}, nil
}

// CloseResponse describes the closed file if Flags says so; otherwise all is
// zero.
//
// Source: [MS-SMB2 2.2.16]
type CloseResponse struct {
	Flags uint16
	FileTimes
	AllocationSize, EndOfFile uint64
	FileAttributes            uint32
}

// AppendTo appends the body.
func (r *CloseResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, closeResponseFixed)
	b = le.AppendUint16(b, r.Flags)
	b = le.AppendUint32(b, 0)
	b = r.FileTimes.appendTo(b)
	b = le.AppendUint64(b, r.AllocationSize)
	b = le.AppendUint64(b, r.EndOfFile)
	return le.AppendUint32(b, r.FileAttributes)
}

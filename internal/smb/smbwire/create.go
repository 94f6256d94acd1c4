package smbwire

const (
	createRequestFixed  = 56
	createResponseFixed = 88
)

// ImpersonationImpersonation is the impersonation level of clients: the server acts as the
// user.
const ImpersonationImpersonation uint32 = 2

// CreateRequest opens or creates a file, directory or pipe.
//
// Source: [MS-SMB2 2.2.13]
type CreateRequest struct {
	OplockLevel        uint8
	ImpersonationLevel uint32
	DesiredAccess      uint32
	FileAttributes     uint32
	ShareAccess        uint32
	CreateDisposition  uint32
	CreateOptions      uint32
	// Name is UTF-16LE, without a leading backslash; empty is the share's root.
	Name     []byte
	Contexts []CreateContext
}

// AppendTo appends the body.
func (r *CreateRequest) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, createRequestFixed+1)
	b = append(b, 0, r.OplockLevel)
	b = le.AppendUint32(b, r.ImpersonationLevel)
	b = appendZeros(b, 16)
	b = le.AppendUint32(b, r.DesiredAccess)
	b = le.AppendUint32(b, r.FileAttributes)
	b = le.AppendUint32(b, r.ShareAccess)
	b = le.AppendUint32(b, r.CreateDisposition)
	b = le.AppendUint32(b, r.CreateOptions)
	b = le.AppendUint16(b, HeaderSize+createRequestFixed)
	b = le.AppendUint16(b, uint16(len(r.Name)))
	b = appendZeros(b, 8)
	b = append(b, r.Name...)
	if len(r.Contexts) == 0 {
		if len(r.Name) == 0 {
			b = append(b, 0) // the buffer holds at least one byte
		}
		return b
	}
	return appendCreateContexts(b, start, start+48, r.Contexts)
}

// DecodeCreateRequest decodes a body.
func DecodeCreateRequest(body []byte) (CreateRequest, error) {
	const name = "CREATE request"
	if err := checkBody(name, body, createRequestFixed, createRequestFixed+1); err != nil {
		return CreateRequest{}, err
	}
	r := CreateRequest{
		OplockLevel:        body[3],
		ImpersonationLevel: le.Uint32(body[4:]),
		DesiredAccess:      le.Uint32(body[24:]),
		FileAttributes:     le.Uint32(body[28:]),
		ShareAccess:        le.Uint32(body[32:]),
		CreateDisposition:  le.Uint32(body[36:]),
		CreateOptions:      le.Uint32(body[40:]),
	}
	var err error
	if r.Name, err = span16(name, "Name", body, createRequestFixed, 44); err != nil {
		return r, err
	}
	r.Contexts, err = decodeCreateContexts(name, body, createRequestFixed, body[48:])
	return r, err
}

// CreateResponse describes the opened file.
//
// Source: [MS-SMB2 2.2.14]
type CreateResponse struct {
	OplockLevel  uint8
	Flags        uint8
	CreateAction uint32
	FileTimes
	AllocationSize, EndOfFile uint64
	FileAttributes            uint32
	FileID                    FileID
	Contexts                  []CreateContext
}

// AppendTo appends the body.
func (r *CreateResponse) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, createResponseFixed+1)
	b = append(b, r.OplockLevel, r.Flags)
	b = le.AppendUint32(b, r.CreateAction)
	b = r.FileTimes.appendTo(b)
	b = le.AppendUint64(b, r.AllocationSize)
	b = le.AppendUint64(b, r.EndOfFile)
	b = le.AppendUint32(b, r.FileAttributes)
	b = le.AppendUint32(b, 0)
	b = r.FileID.appendTo(b)
	b = appendZeros(b, 8)
	if len(r.Contexts) == 0 {
		return b
	}
	return appendCreateContexts(b, start, start+80, r.Contexts)
}

// DecodeCreateResponse decodes a body.
func DecodeCreateResponse(body []byte) (CreateResponse, error) {
	const name = "CREATE response"
	if err := checkBody(name, body, createResponseFixed, createResponseFixed+1); err != nil {
		return CreateResponse{}, err
	}
	r := CreateResponse{
		OplockLevel:    body[2],
		Flags:          body[3],
		CreateAction:   le.Uint32(body[4:]),
		FileTimes:      fileTimes(body[8:]),
		AllocationSize: le.Uint64(body[40:]),
		EndOfFile:      le.Uint64(body[48:]),
		FileAttributes: le.Uint32(body[56:]),
		FileID:         fileID(body[64:]),
	}
	var err error
	r.Contexts, err = decodeCreateContexts(name, body, createResponseFixed, body[80:])
	return r, err
}

// FileTimes are the four times of a file.
//
// Source: [MS-FSCC 2.4.7]
type FileTimes struct {
	CreationTime, LastAccessTime, LastWriteTime, ChangeTime Filetime
}

const fileTimesSize = 32

func (t *FileTimes) appendTo(b []byte) []byte {
	b = le.AppendUint64(b, uint64(t.CreationTime))
	b = le.AppendUint64(b, uint64(t.LastAccessTime))
	b = le.AppendUint64(b, uint64(t.LastWriteTime))
	return le.AppendUint64(b, uint64(t.ChangeTime))
}

func fileTimes(b []byte) FileTimes {
	return FileTimes{
		CreationTime:   Filetime(le.Uint64(b)),
		LastAccessTime: Filetime(le.Uint64(b[8:])),
		LastWriteTime:  Filetime(le.Uint64(b[16:])),
		ChangeTime:     Filetime(le.Uint64(b[24:])),
	}
}

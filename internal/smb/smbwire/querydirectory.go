package smbwire

const queryDirectoryRequestFixed = 32

// Flags of QUERY_DIRECTORY.
//
// Source: [MS-SMB2 2.2.33]
const (
	QueryDirectoryRestart uint8 = 0x01
	QueryDirectorySingle  uint8 = 0x02
	QueryDirectoryReopen  uint8 = 0x10
)

// QueryDirectoryRequest asks for the next entries of a directory. The response
// is a BufferResponse with a list of DirEntry.
//
// Source: [MS-SMB2 2.2.33]
type QueryDirectoryRequest struct {
	Class     DirClass
	Flags     uint8
	FileIndex uint32
	FileID    FileID
	// OutputBufferLength bounds the entries of the response, in bytes.
	OutputBufferLength uint32
	// Pattern is UTF-16LE.
	Pattern []byte
}

// AppendTo appends the body.
func (r *QueryDirectoryRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, queryDirectoryRequestFixed+1)
	b = append(b, uint8(r.Class), r.Flags)
	b = le.AppendUint32(b, r.FileIndex)
	b = r.FileID.appendTo(b)
	b = le.AppendUint16(b, HeaderSize+queryDirectoryRequestFixed)
	b = le.AppendUint16(b, uint16(len(r.Pattern)))
	b = le.AppendUint32(b, r.OutputBufferLength)
	return append(b, r.Pattern...)
}

// DecodeQueryDirectoryRequest decodes a body.
func DecodeQueryDirectoryRequest(body []byte) (QueryDirectoryRequest, error) {
	const name = "QUERY_DIRECTORY request"
	if err := checkBody(name, body, queryDirectoryRequestFixed, queryDirectoryRequestFixed+1); err != nil {
		return QueryDirectoryRequest{}, err
	}
	pattern, err := span16(name, "FileName", body, queryDirectoryRequestFixed, 24)
	return QueryDirectoryRequest{
		Class:              DirClass(body[2]),
		Flags:              body[3],
		FileIndex:          le.Uint32(body[4:]),
		FileID:             fileID(body[8:]),
		OutputBufferLength: le.Uint32(body[28:]),
		Pattern:            pattern,
	}, err
}

const bufferResponseFixed = 8

// BufferResponse is the response to QUERY_DIRECTORY, QUERY_INFO and
// CHANGE_NOTIFY.
//
// Source: [MS-SMB2 2.2.34], [MS-SMB2 2.2.36], [MS-SMB2 2.2.38]
type BufferResponse struct {
	Data []byte
}

// AppendTo appends the body.
func (r *BufferResponse) AppendTo(b []byte) []byte {
	return append(r.AppendFixed(b, len(r.Data)), r.Data...)
}

// AppendFixed appends the part of the body that precedes n bytes of data.
func (r *BufferResponse) AppendFixed(b []byte, n int) []byte {
	b = le.AppendUint16(b, bufferResponseFixed+1)
	b = le.AppendUint16(b, HeaderSize+bufferResponseFixed)
	return le.AppendUint32(b, uint32(n))
}

// DecodeBufferResponse decodes a body.
func DecodeBufferResponse(body []byte) (BufferResponse, error) {
	const name = "QUERY response"
	if err := checkBody(name, body, bufferResponseFixed, bufferResponseFixed+1); err != nil {
		return BufferResponse{}, err
	}
	data, err := span(name, "OutputBuffer", body, bufferResponseFixed, uint32(le.Uint16(body[2:])), le.Uint32(body[4:]))
	return BufferResponse{Data: data}, err
}

package smbwire

const queryInfoRequestFixed = 40

// InfoType is the kind of information of QUERY_INFO and SET_INFO.
//
// Source: [MS-SMB2 2.2.37]
type InfoType uint8

// The kinds of information.
const (
	InfoFile       InfoType = 1
	InfoFileSystem InfoType = 2
	InfoSecurity   InfoType = 3
	InfoQuota      InfoType = 4
)

// QueryInfoRequest asks for a FileClass, a FSClass or a security descriptor.
// The response is a BufferResponse.
//
// Source: [MS-SMB2 2.2.37]
type QueryInfoRequest struct {
	InfoType InfoType
	// Class is a FileClass or FSClass, by InfoType.
	Class                 uint8
	OutputBufferLength    uint32
	AdditionalInformation uint32
	Flags                 uint32
	FileID                FileID
	Input                 []byte
}

// AppendTo appends the body.
func (r *QueryInfoRequest) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, queryInfoRequestFixed+1)
	b = append(b, uint8(r.InfoType), r.Class)
	b = le.AppendUint32(b, r.OutputBufferLength)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(r.Input)))
	b = le.AppendUint32(b, r.AdditionalInformation)
	b = le.AppendUint32(b, r.Flags)
	b = r.FileID.appendTo(b)
	le.PutUint16(b[start+8:], uint16(offsetOf(b, start, len(r.Input))))
	return append(b, r.Input...)
}

// DecodeQueryInfoRequest decodes a body.
func DecodeQueryInfoRequest(body []byte) (QueryInfoRequest, error) {
	const name = "QUERY_INFO request"
	if err := checkBody(name, body, queryInfoRequestFixed, queryInfoRequestFixed+1); err != nil {
		return QueryInfoRequest{}, err
	}
	input, err := span(name, "InputBuffer", body, queryInfoRequestFixed, uint32(le.Uint16(body[8:])), le.Uint32(body[12:]))
	return QueryInfoRequest{
		InfoType:              InfoType(body[2]),
		Class:                 body[3],
		OutputBufferLength:    le.Uint32(body[4:]),
		AdditionalInformation: le.Uint32(body[16:]),
		Flags:                 le.Uint32(body[20:]),
		FileID:                fileID(body[24:]),
		Input:                 input,
	}, err
}

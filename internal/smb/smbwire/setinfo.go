package smbwire

const (
	setInfoRequestFixed  = 32
	setInfoResponseFixed = 2
)

// SetInfoRequest changes the information of a FileClass, an FSClass or a security descriptor.
//
// Source: [MS-SMB2 2.2.39]
type SetInfoRequest struct {
	InfoType InfoType
	// Class is a FileClass or FSClass, by InfoType.
	Class                 uint8
	AdditionalInformation uint32
	FileID                FileID
	Data                  []byte
}

// AppendTo appends the body.
func (r *SetInfoRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, setInfoRequestFixed+1)
	b = append(b, uint8(r.InfoType), r.Class)
	b = le.AppendUint32(b, uint32(len(r.Data)))
	b = le.AppendUint16(b, HeaderSize+setInfoRequestFixed)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.AdditionalInformation)
	b = r.FileID.appendTo(b)
	return append(b, r.Data...)
}

// DecodeSetInfoRequest decodes a body.
func DecodeSetInfoRequest(body []byte) (SetInfoRequest, error) {
	const name = "SET_INFO request"
	if err := checkBody(name, body, setInfoRequestFixed, setInfoRequestFixed+1); err != nil {
		return SetInfoRequest{}, err
	}
	data, err := span(name, "Buffer", body, setInfoRequestFixed, uint32(le.Uint16(body[8:])), le.Uint32(body[4:]))
	return SetInfoRequest{
		InfoType:              InfoType(body[2]),
		Class:                 body[3],
		AdditionalInformation: le.Uint32(body[12:]),
		FileID:                fileID(body[16:]),
		Data:                  data,
	}, err
}

// SetInfoResponse has no content.
//
// Source: [MS-SMB2 2.2.40]
type SetInfoResponse struct{}

// AppendTo appends the body.
func (SetInfoResponse) AppendTo(b []byte) []byte {
	return le.AppendUint16(b, setInfoResponseFixed)
}

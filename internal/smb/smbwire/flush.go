package smbwire

const flushRequestFixed = 24

// FlushRequest makes the data of a file durable. The response is Empty.
//
// Source: [MS-SMB2 2.2.17]
type FlushRequest struct {
	FileID FileID
}

// AppendTo appends the body.
func (r *FlushRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, flushRequestFixed)
	b = appendZeros(b, 6)
	return r.FileID.appendTo(b)
}

// DecodeFlushRequest decodes a body.
func DecodeFlushRequest(body []byte) (FlushRequest, error) {
	if err := checkBody("FLUSH request", body, flushRequestFixed, flushRequestFixed); err != nil {
		return FlushRequest{}, err
	}
	return FlushRequest{FileID: fileID(body[8:])}, nil
}

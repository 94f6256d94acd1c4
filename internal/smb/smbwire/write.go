package smbwire

const (
	// WriteRequestFixed is the length of the body of a WRITE request without its payload,
	// in bytes.
	WriteRequestFixed  = 48
	writeResponseFixed = 16
)

// Flags of a write.
//
// Source: [MS-SMB2 2.2.21]
const (
	WriteFlagThrough uint32 = 0x00000001
)

// WriteRequest writes Data at byte Offset.
//
// Source: [MS-SMB2 2.2.21]
type WriteRequest struct {
	Offset         uint64
	FileID         FileID
	Channel        uint32
	RemainingBytes uint32
	Flags          uint32
	Data           []byte
}

// AppendTo appends the body with its payload.
func (r *WriteRequest) AppendTo(b []byte) []byte {
	return append(r.AppendFixed(b, len(r.Data)), r.Data...)
}

// AppendFixed appends the WriteRequestFixed bytes before a payload of n bytes, which the
// caller appends. r.Data is ignored.
func (r *WriteRequest) AppendFixed(b []byte, n int) []byte {
	b = le.AppendUint16(b, WriteRequestFixed+1)
	b = le.AppendUint16(b, HeaderSize+WriteRequestFixed)
	b = le.AppendUint32(b, uint32(n))
	b = le.AppendUint64(b, r.Offset)
	b = r.FileID.appendTo(b)
	b = le.AppendUint32(b, r.Channel)
	b = le.AppendUint32(b, r.RemainingBytes)
	b = appendZeros(b, 4)
	return le.AppendUint32(b, r.Flags)
}

// DecodeWriteRequest decodes a body. Channel information is ignored: a server without
// channels refuses the request by Channel.
func DecodeWriteRequest(body []byte) (WriteRequest, error) {
	const name = "WRITE request"
	if err := checkBody(name, body, WriteRequestFixed, WriteRequestFixed+1); err != nil {
		return WriteRequest{}, err
	}
	data, err := span(name, "Data", body, WriteRequestFixed, uint32(le.Uint16(body[2:])), le.Uint32(body[4:]))
	return WriteRequest{
		Offset:         le.Uint64(body[8:]),
		FileID:         fileID(body[16:]),
		Channel:        le.Uint32(body[32:]),
		RemainingBytes: le.Uint32(body[36:]),
		Flags:          le.Uint32(body[44:]),
		Data:           data,
	}, err
}

// WriteResponse carries the number of written bytes.
//
// Source: [MS-SMB2 2.2.22]
type WriteResponse struct {
	Count, Remaining uint32
}

// AppendTo appends the body.
func (r *WriteResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, writeResponseFixed+1)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.Count)
	b = le.AppendUint32(b, r.Remaining)
	return le.AppendUint32(b, 0)
}

// DecodeWriteResponse decodes a body.
func DecodeWriteResponse(body []byte) (WriteResponse, error) {
	if err := checkBody("WRITE response", body, writeResponseFixed, writeResponseFixed+1); err != nil {
		return WriteResponse{}, err
	}
	return WriteResponse{Count: le.Uint32(body[4:]), Remaining: le.Uint32(body[8:])}, nil
}

package smbwire

const (
	readRequestFixed = 48
	// ReadResponseFixed is the length of the body of a READ response without its payload,
	// in bytes.
	ReadResponseFixed = 16
)

// ReadRequest asks for Length bytes from byte Offset.
//
// Source: [MS-SMB2 2.2.19]
type ReadRequest struct {
	// Padding is the requested offset of the payload, from the header.
	Padding        uint8
	Flags          uint8
	Length         uint32
	Offset         uint64
	FileID         FileID
	MinimumCount   uint32
	Channel        uint32
	RemainingBytes uint32
	ChannelInfo    []byte
}

// AppendTo appends the body.
func (r *ReadRequest) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, readRequestFixed+1)
	b = append(b, r.Padding, r.Flags)
	b = le.AppendUint32(b, r.Length)
	b = le.AppendUint64(b, r.Offset)
	b = r.FileID.appendTo(b)
	b = le.AppendUint32(b, r.MinimumCount)
	b = le.AppendUint32(b, r.Channel)
	b = le.AppendUint32(b, r.RemainingBytes)
	b = appendZeros(b, 4)
	if len(r.ChannelInfo) == 0 {
		return append(b, 0) // the buffer holds at least one byte
	}
	le.PutUint16(b[start+44:], uint16(offsetOf(b, start, len(r.ChannelInfo))))
	le.PutUint16(b[start+46:], uint16(len(r.ChannelInfo)))
	return append(b, r.ChannelInfo...)
}

// DecodeReadRequest decodes a body.
func DecodeReadRequest(body []byte) (ReadRequest, error) {
	const name = "READ request"
	if err := checkBody(name, body, readRequestFixed, readRequestFixed+1); err != nil {
		return ReadRequest{}, err
	}
	info, err := span16(name, "ReadChannelInfo", body, readRequestFixed, 44)
	return ReadRequest{
		Padding:        body[2],
		Flags:          body[3],
		Length:         le.Uint32(body[4:]),
		Offset:         le.Uint64(body[8:]),
		FileID:         fileID(body[16:]),
		MinimumCount:   le.Uint32(body[32:]),
		Channel:        le.Uint32(body[36:]),
		RemainingBytes: le.Uint32(body[40:]),
		ChannelInfo:    info,
	}, err
}

// ReadResponse carries the bytes of a read.
//
// Source: [MS-SMB2 2.2.20]
type ReadResponse struct {
	Remaining uint32
	Data      []byte
}

// AppendTo appends the body with its payload.
func (r *ReadResponse) AppendTo(b []byte) []byte {
	return append(r.AppendFixed(b, len(r.Data)), r.Data...)
}

// AppendFixed appends the ReadResponseFixed bytes before a payload of n bytes, which the
// caller appends. r.Data is ignored.
func (r *ReadResponse) AppendFixed(b []byte, n int) []byte {
	b = le.AppendUint16(b, ReadResponseFixed+1)
	b = append(b, HeaderSize+ReadResponseFixed, 0)
	b = le.AppendUint32(b, uint32(n))
	b = le.AppendUint32(b, r.Remaining)
	return le.AppendUint32(b, 0)
}

// DecodeReadResponse decodes a body.
func DecodeReadResponse(body []byte) (ReadResponse, error) {
	const name = "READ response"
	if err := checkBody(name, body, ReadResponseFixed, ReadResponseFixed+1); err != nil {
		return ReadResponse{}, err
	}
	data, err := span(name, "Data", body, ReadResponseFixed, uint32(body[2]), le.Uint32(body[4:]))
	return ReadResponse{Remaining: le.Uint32(body[8:]), Data: data}, err
}

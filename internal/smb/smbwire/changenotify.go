package smbwire

const changeNotifyRequestFixed = 32

// ChangeNotifyWatchTree watches everything below the directory too.
const ChangeNotifyWatchTree uint16 = 0x0001

// ChangeNotifyRequest waits for changes of a directory. The response is a
// BufferResponse.
//
// Source: [MS-SMB2 2.2.35]
type ChangeNotifyRequest struct {
	Flags              uint16
	OutputBufferLength uint32
	FileID             FileID
	CompletionFilter   uint32
}

// DecodeChangeNotifyRequest decodes a body.
func DecodeChangeNotifyRequest(body []byte) (ChangeNotifyRequest, error) {
	if err := checkBody("CHANGE_NOTIFY request", body, changeNotifyRequestFixed, changeNotifyRequestFixed); err != nil {
		return ChangeNotifyRequest{}, err
	}
	return ChangeNotifyRequest{
		Flags:              le.Uint16(body[2:]),
		OutputBufferLength: le.Uint32(body[4:]),
		FileID:             fileID(body[8:]),
		CompletionFilter:   le.Uint32(body[24:]),
	}, nil
}

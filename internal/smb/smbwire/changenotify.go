package smbwire

const changeNotifyRequestFixed = 32

// ChangeNotifyWatchTree watches everything below the directory too.
const ChangeNotifyWatchTree uint16 = 0x0001

// ChangeNotifyRequest waits for changes of a directory. The response is a
// BufferResponse with a list of changes.
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

const notifyInfoFixed = 12

// NotifyInfo is one change of a file.
//
// Source: [MS-FSCC 2.7.1], [MS-SMB2 2.2.36]
type NotifyInfo struct {
	Action uint32
	// Name is UTF-16LE, relative to the directory.
	Name []byte
}

// NotifyInfoSize returns the length of a list of n bytes with a further change, whose name has length
// bytes.
func NotifyInfoSize(n, length int) int { return (n+3)&^3 + notifyInfoFixed + length }

// AppendNotifyInfo appends a change to a list that begins at start. last is the offset of the change
// before, negative for the first; the second result is the offset of this change.
func AppendNotifyInfo(b []byte, start, last int, i *NotifyInfo) (_ []byte, at int) {
	if last >= 0 {
		for (len(b)-start)%4 != 0 {
			b = append(b, 0)
		}
		le.PutUint32(b[last:], uint32(len(b)-last))
	}
	at = len(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, i.Action)
	b = le.AppendUint32(b, uint32(len(i.Name)))
	return append(b, i.Name...), at
}

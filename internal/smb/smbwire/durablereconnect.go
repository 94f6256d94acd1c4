package smbwire

const durableReconnectSize = 36

// DurableReconnect is the data of CreateContextDurableV2Connect in a request: the client takes an
// open over from a connection that it has lost.
//
// Source: [MS-SMB2 2.2.13.2.12]
type DurableReconnect struct {
	// FileID is the handle of the open on the lost connection.
	FileID FileID
	// CreateGUID is the GUID of the request that made the open.
	CreateGUID [16]byte
	Flags      uint32
}

// AppendTo appends the data.
func (d *DurableReconnect) AppendTo(b []byte) []byte {
	b = d.FileID.appendTo(b)
	b = append(b, d.CreateGUID[:]...)
	return le.AppendUint32(b, d.Flags)
}

// DecodeDurableReconnect decodes the data.
func DecodeDurableReconnect(b []byte) (DurableReconnect, error) {
	if len(b) < durableReconnectSize {
		return DurableReconnect{}, fault("durable handle reconnect", "", ErrShort)
	}
	return DurableReconnect{FileID: fileID(b), CreateGUID: [16]byte(b[16:]), Flags: le.Uint32(b[32:])}, nil
}

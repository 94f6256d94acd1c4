package smbwire

const durableV1ReconnectSize = 16

// DurableV1Reconnect is the data of CreateContextDurableReconnect in a request: the client takes an open over
// from a connection that it has lost. The data of CreateContextDurable are 16 reserved bytes in a request, and
// 8 in a response.
//
// Source: [MS-SMB2 2.2.13.2.4]
type DurableV1Reconnect struct {
	// FileID is the handle of the open on the lost connection.
	FileID FileID
}

// AppendTo appends the data.
func (d *DurableV1Reconnect) AppendTo(b []byte) []byte { return d.FileID.appendTo(b) }

// DecodeDurableV1Reconnect decodes the data.
func DecodeDurableV1Reconnect(b []byte) (DurableV1Reconnect, error) {
	if len(b) < durableV1ReconnectSize {
		return DurableV1Reconnect{}, fault("durable handle reconnect of version 1", "", ErrShort)
	}
	return DurableV1Reconnect{FileID: fileID(b)}, nil
}

package wire

// NewSync makes a SYNC message: the server puts all data of the file on stable storage whose writes it has
// answered before the message was sent, on any connection.
//
// Source: [OP-116]
func NewSync(fid uint16) Header { return fileCall(OpSync, fid) }

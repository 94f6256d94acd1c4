package wire

// NoFid is the file id of no file. On a sealed connection its CLOSE is the client's last message, which has
// no answer.
//
// Source: [OP-114b]
const NoFid = 0

// NewClose makes a CLOSE message: the server answers when no I/O of the file id is in flight
// any more, and takes no new I/O.
//
// Source: [LWIO §Close], [OP-26], [OP-94d]
func NewClose(fid uint16) Header {
	h := control(OpClose, HeaderSize)
	h.Fid = fid
	return h
}

package wire

// NewClose is a CLOSE message: the server answers when no I/O of the file id is in
// flight any more, and takes no new one.
//
// Source: [LWIO §Close], [OP-26], [OP-94d]
func NewClose(cookie uint64, fid uint16) Header {
	h := control(OpClose, cookie, HeaderSize)
	h.Fid = fid
	return h
}

package wire

// NewCancel makes a CANCEL message: the server completes the I/O of the file id that it can
// cancel, then answers.
//
// Source: [LWIO §Cancel], [OP-26], [OP-94b]
func NewCancel(fid uint16) Header {
	h := control(OpCancel, HeaderSize)
	h.Fid = fid
	return h
}

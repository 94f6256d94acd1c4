package wire

// NewSetSize makes a SETSIZE message: the file gets that size, in bytes, at most 2^63-1.
//
// Source: [OP-116]
func NewSetSize(fid uint16, size uint64) Header {
	h := fileCall(OpSetSize, fid)
	h.Offset = size
	return h
}

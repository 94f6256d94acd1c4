package smbwire

// The transport's header before every message on TCP: one zero byte and the length in three
// bytes, big-endian.
//
// Source: [MS-SMB2 2.1]
const (
	// FrameHeaderSize is the size of the transport's header, in bytes.
	FrameHeaderSize = 4
	// MaxFrame is the longest message that can be framed, in bytes.
	MaxFrame = 1<<24 - 1
)

// PutFrameHeader writes the transport's header of a message of n bytes, at most MaxFrame,
// into the first FrameHeaderSize bytes of b.
func PutFrameHeader(b []byte, n int) {
	_ = b[FrameHeaderSize-1]
	b[0], b[1], b[2], b[3] = 0, byte(n>>16), byte(n>>8), byte(n)
}

// DecodeFrameHeader returns the length of the message that follows.
//
// Errors: ErrShort, ErrValue if the first byte is not zero.
func DecodeFrameHeader(b []byte) (int, error) {
	if len(b) < FrameHeaderSize {
		return 0, fault("frame", "", ErrShort)
	}
	if b[0] != 0 {
		return 0, fault("frame", "type", ErrValue)
	}
	return int(b[1])<<16 | int(b[2])<<8 | int(b[3]), nil
}

package smbwire

// Next splits the first element off a compound. The element includes the padding up to the
// next header, because signatures cover it. more is the bytes behind the element, nil
// behind the last one. DecodeHeader checks the header of the element.
//
// Errors: the errors of DecodeHeader; ErrOffset if NextCommand is no multiple of 8, or
// points into the element's header or out of the message.
//
// Source: [MS-SMB2 3.2.4.1.4], [MS-SMB2 3.3.5.2.7]
func Next(msg []byte) (h Header, element, more []byte, err error) {
	h, err = DecodeHeader(msg)
	if err != nil || h.NextCommand == 0 {
		return h, msg, nil, err
	}
	n := h.NextCommand
	if n%8 != 0 || n < HeaderSize || uint64(n) > uint64(len(msg))-HeaderSize {
		return h, nil, nil, fault("header", "NextCommand", ErrOffset)
	}
	return h, msg[:n:n], msg[n:], nil
}

// MostElements returns a bound of the number of elements of a message of n bytes that begins with
// head, at least HeaderSize bytes or the whole message. A message that is encrypted can have as
// many as fit.
func MostElements(head []byte, n int) int {
	if len(head) < HeaderSize || le.Uint32(head) == protocolSMB2 && le.Uint32(head[offNextCommand:]) == 0 {
		return 1
	}
	return max(n/HeaderSize, 1)
}

// EndElement ends the element that begins at start in b, so that another can be appended: it
// pads to 8 bytes and writes NextCommand into its header.
func EndElement(b []byte, start int) []byte {
	b = pad8(b, start)
	le.PutUint32(b[start+offNextCommand:], uint32(len(b)-start))
	return b
}

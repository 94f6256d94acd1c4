package wire

import "encoding/binary"

// NegotiateRequest is the first message on the pipe: the client names its
// providers.
//
//	  0 control header       12 ClientName, 256 UTF-16 units   524 Key 16 bytes
//	540 ResponseLength u16  542 ProviderCount u16              544 address blocks
//
// Source: [LWIO §Network Discovery], [LWIO claim 7], [LWIO claim 8], [OP-16], [OP-41]
type NegotiateRequest struct {
	// ClientName is for the server's logs.
	ClientName string
	// Key is random; the server proves itself with it in AUTH.
	Key [16]byte
	// ResponseLength is the size of the client's buffer for the response.
	ResponseLength uint16
	Providers      []AddressBlock
}

// AppendTo appends the message to b.
//
// Errors: *Error for names that do not fit or are not text, and for a message of
// more than maxNegotiateSize.
func (r *NegotiateRequest) AppendTo(b []byte) ([]byte, error) {
	start := len(b)
	b, err := appendName(startNegotiate(b), negotiate, r.ClientName, maxHostName)
	if err != nil {
		return nil, err
	}
	b = append(b, r.Key[:]...)
	b = binary.LittleEndian.AppendUint16(b, r.ResponseLength)
	if b, err = appendBlocks(b, r.Providers); err != nil {
		return nil, err
	}
	return endNegotiate(b, start)
}

// DecodeNegotiateRequest decodes a whole message of the pipe. The result does not
// refer to b.
//
// Errors: *Error, which closes the pipe.
//
// Source: [LWIO §Network Discovery], [OP-35], [OP-37]
func DecodeNegotiateRequest(b []byte) (NegotiateRequest, error) {
	c, err := negotiateBody(b)
	if err != nil {
		return NegotiateRequest{}, err
	}
	r := NegotiateRequest{ClientName: c.name(maxHostName)}
	copy(r.Key[:], c.take(len(r.Key)))
	r.ResponseLength = c.u16()
	r.Providers = c.blocks()
	if err := c.end(negotiate); err != nil {
		return NegotiateRequest{}, err
	}
	return r, nil
}

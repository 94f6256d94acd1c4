package wire

// NegotiateResponse is the server's answer on the pipe: the providers that both
// sides have.
//
//	  0 control header         12 SrvName, 256 UTF-16 units
//	524 Key 16 bytes          540 ProviderCount u16   542 address blocks
//
// Source: [LWIO §Network Discovery], [LWIO claim 8], [LWIO claim 13], [OP-16]
type NegotiateResponse struct {
	ServerName string
	// Key is random; the client proves itself with it in AUTH.
	Key       [16]byte
	Providers []AddressBlock
}

// AppendTo appends the message to b.
//
// Errors: *Error for names that do not fit or are not text, and for a message of
// more than maxNegotiateSize.
func (r *NegotiateResponse) AppendTo(b []byte) ([]byte, error) {
	start := len(b)
	b, err := appendName(startNegotiate(b), negotiate, r.ServerName, maxHostName)
	if err != nil {
		return nil, err
	}
	if b, err = appendBlocks(append(b, r.Key[:]...), r.Providers); err != nil {
		return nil, err
	}
	return endNegotiate(b, start)
}

// AppendFitting appends the message to b with as many of the providers, from the
// first on, as fit responseLength bytes.
//
// Errors: the errors of AppendTo, and *Error if not even a message without providers fits:
// the call on the pipe fails then.
//
// Source: [LWIO §Network Discovery], [OP-36]
func (r *NegotiateResponse) AppendFitting(b []byte, responseLength int) ([]byte, error) {
	fit := *r
	room := min(responseLength, maxNegotiateSize) - negotiateResponseFixed
	if room < 0 {
		return nil, cut(negotiate, "a response of %d bytes is wanted where %d are the least",
			responseLength, negotiateResponseFixed)
	}
	for i, p := range r.Providers {
		if room -= p.size(); room < 0 {
			fit.Providers = r.Providers[:i]
			break
		}
	}
	return fit.AppendTo(b)
}

// negotiateResponseFixed is the size of a response without providers, in bytes.
const negotiateResponseFixed = controlHeaderSize + 2*maxHostName + 16 + 2

// size is the number of bytes that the block takes.
func (a AddressBlock) size() int {
	n := addressBlockFixed
	for _, i := range a.Instances {
		n += netAddressFixed + len(i.HostAddress) + len(i.Discriminator)
	}
	return n
}

// DecodeNegotiateResponse decodes a whole message of the pipe. The result does not
// refer to b.
//
// Errors: *Error, which closes the pipe.
//
// Source: [LWIO §Network Discovery], [OP-35], [OP-37]
func DecodeNegotiateResponse(b []byte) (NegotiateResponse, error) {
	c, err := negotiateBody(b)
	if err != nil {
		return NegotiateResponse{}, err
	}
	r := NegotiateResponse{ServerName: c.name(maxHostName)}
	copy(r.Key[:], c.take(len(r.Key)))
	r.Providers = c.blocks()
	if err := c.end(negotiate); err != nil {
		return NegotiateResponse{}, err
	}
	return r, nil
}

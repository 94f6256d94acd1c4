package wire

import "math/bits"

const (
	// AuthServerRoom is the size of the buffer that a client lends for the server's
	// parameters, and the most that a server writes, in bytes.
	//
	// Source: [OP-48]
	AuthServerRoom = 512
	// authExtra is what the server adds to the size of its parameters.
	authExtra = 8
	// Page sizes that a peer may have, in bytes. [OP-28]
	minPageSize, maxPageSize = 512, 32768
)

// NewAuth is the header of an AUTH message with params bytes of AUTH_PARAMS; the
// server's are written to target, of which at least AuthServerRoom bytes are lent.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-26], [OP-48]
func NewAuth(cookie uint64, params int, target RDMARegion) Header {
	h := control(OpAuth, cookie, HeaderSize+params)
	h.DataVa, h.DataMh = target.DataVa, target.DataMh
	return h
}

// AuthInformation is what a server answers for n bytes of parameters: n plus 8.
//
// Source: [LWIO §Connection Authentication], [OP-47]
func AuthInformation(n int) uint32 { return uint32(n) + authExtra }

// AuthParamsLen is the number of bytes of parameters that a server's answer to
// AUTH stands for.
//
// Errors: *Error, which ends the connection, for a number that cannot be.
//
// Source: [LWIO §Connection Authentication], [OP-47], [OP-48]
func AuthParamsLen(information uint32) (int, error) {
	n := int64(information) - authExtra
	if n < AuthFixedSize || n > AuthServerRoom {
		return 0, cut(authParams, "the server says that it wrote %d bytes", n)
	}
	return int(n), nil
}

// CheckClient is what a server demands of a client's parameters, besides the value
// of the key and the signatures.
//
// Errors: *Error with ACCESS_DENIED, which ends the connection.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-13], [OP-50b], [OP-50c], [OP-50h]
func (p *AuthParams) CheckClient() error {
	if p.MaxRdmaWindowSize == 0 || p.MaxRecvBufferSize < StatusResponseSize {
		return deny(authParams, "RDMA Writes of %d and receives of %d bytes", p.MaxRdmaWindowSize, p.MaxRecvBufferSize)
	}
	return p.check()
}

// CheckServer is what a client demands of a server's parameters, besides the value
// of the key and the signatures. sent are the parameters that it sent itself.
//
// Errors: *Error, which ends the connection.
//
// Source: [LWIO §Connection Authentication], [OP-50b], [OP-50e], [OP-50g], [OP-50i]
func (p *AuthParams) CheckServer(sent *AuthParams) error {
	if p.BaseSequence != sent.BaseSequence+1 {
		return deny(authParams, "base sequence %d after %d", p.BaseSequence, sent.BaseSequence)
	}
	if p.SessionID == nil {
		return deny(authParams, "no session id")
	}
	if p.Credits == 0 || p.Credits > sent.Credits {
		return deny(authParams, "%d credits granted of %d", p.Credits, sent.Credits)
	}
	return p.check()
}

// check is what both sides demand.
func (p *AuthParams) check() error {
	switch {
	case p.RevID != RevID:
		return deny(authParams, "revision 0x%X instead of 0x%X", p.RevID, RevID)
	case p.Endian != 4 && p.Endian != 8:
		return deny(authParams, "pointers of %d bytes", p.Endian)
	case !validPageSize(p.PageSize):
		return deny(authParams, "pages of %d bytes", p.PageSize)
	case p.HeaderSize != HeaderSize:
		return deny(authParams, "headers of %d bytes instead of %d", p.HeaderSize, HeaderSize)
	case p.Key == nil:
		return deny(authParams, "no key")
	case p.Signature == nil:
		return deny(authParams, "no signature")
	}
	return nil
}

// validPageSize reports whether a peer may have pages of n bytes.
//
// Source: [OP-28]
func validPageSize(n uint16) bool {
	return n >= minPageSize && n <= maxPageSize && bits.OnesCount16(n) == 1
}

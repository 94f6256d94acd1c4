package wire

import "math/bits"

const (
	// AuthBufferSize is the size of the client's buffer for the server's parameters, and the
	// most that a server writes, in bytes.
	//
	// Source: [OP-48]
	AuthBufferSize = 512
	// authExtra is added to the size of the server's parameters in its answer.
	authExtra = 8
	// Page sizes that a peer may have, in bytes. [OP-28]
	minPageSize, maxPageSize = 512, 32768
)

// NewAuth makes the header of an AUTH message with params bytes of AUTH_PARAMS. The server's
// are written to target, which has AuthBufferSize bytes at least.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-26], [OP-48]
func NewAuth(params int, target RDMARegion) Header {
	h := control(OpAuth, HeaderSize+params)
	h.DataVa, h.DataMh = target.DataVa, target.DataMh
	return h
}

// AuthInformation is the Information of a server's answer to AUTH that wrote n bytes of
// parameters: n plus 8.
//
// Source: [LWIO §Connection Authentication], [OP-47]
func AuthInformation(n int) uint32 { return uint32(n) + authExtra }

// AuthParamsLen is the number of bytes of parameters in a server's answer to AUTH.
//
// Errors: *Error, which ends the connection, for an impossible number.
//
// Source: [LWIO §Connection Authentication], [OP-47], [OP-48]
func AuthParamsLen(information uint32) (int, error) {
	n := int64(information) - authExtra
	if n < authFixedSize || n > AuthBufferSize {
		return 0, cut(authParams, "the server reports %d bytes", n)
	}
	return int(n), nil
}

// CheckClient checks a client's parameters for the server, all but the value of the key and
// the signatures.
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

// CheckServer checks a server's parameters for the client, all but the value of the key and
// the signatures. sent are the client's own parameters.
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
	if extra := p.Extensions &^ sent.Extensions; extra != 0 {
		return deny(authParams, "extensions 0x%X that were not offered", uint32(extra))
	}
	return p.check()
}

// check checks the parameters of either side.
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

package wire

import "encoding/binary"

// StatusResponseSize is the size of a status response, in bytes.
const StatusResponseSize = 16

// StatusResponse is every message from the server to the client: it completes a
// request, or announces a change of credits (see Delta).
//
//	0 Cookie u64   8 Information u32   12 Status u32
//
// Source: [LWIO §Connection Authentication], [LWIO §I/O Processing], [LWIO claim 14], [OP-29]
type StatusResponse struct {
	// Cookie is the cookie of the request; 0 for a change of credits.
	Cookie uint64
	// Information depends on the request: bytes read or written, a file id, a
	// number of credits, the size of AUTH_PARAMS plus 8, or 0.
	Information uint32
	// Status is an NTSTATUS, or NotifyCredit.
	Status uint32
}

// AppendTo appends the 16 bytes of the response to b.
func (r StatusResponse) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.Cookie)
	b = binary.LittleEndian.AppendUint32(b, r.Information)
	return binary.LittleEndian.AppendUint32(b, r.Status)
}

// DecodeStatusResponse decodes a status response.
//
// Errors: *Error, which ends the connection, unless b has exactly 16 bytes.
func DecodeStatusResponse(b []byte) (StatusResponse, error) {
	if len(b) != StatusResponseSize {
		return StatusResponse{}, wrongSize("status response", len(b), StatusResponseSize)
	}
	return StatusResponse{
		Cookie:      binary.LittleEndian.Uint64(b),
		Information: binary.LittleEndian.Uint32(b[8:]),
		Status:      binary.LittleEndian.Uint32(b[12:]),
	}, nil
}

package smbwire

// DurablePersistent in the flags of a durable handle context asks for a persistent handle, or grants
// one: an open that outlives its connection and needs no lease. Without it the open lasts as long as it has a batch
// oplock or a lease with LeaseHandle.
//
// Source: [MS-SMB2 2.2.13.2.11]
const DurablePersistent uint32 = 0x00000002

const (
	durableRequestSize  = 32
	durableResponseSize = 8
)

// DurableRequest is the data of CreateContextDurableV2 in a request: the open is to outlive its
// connection.
//
// Source: [MS-SMB2 2.2.13.2.11]
type DurableRequest struct {
	// Timeout is the time for which the server keeps the open without a connection, in
	// milliseconds; 0 leaves it to the server.
	Timeout uint32
	Flags   uint32
	// CreateGUID names the open among those of the client.
	CreateGUID [16]byte
}

// AppendTo appends the data.
func (d *DurableRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, d.Timeout)
	b = le.AppendUint32(b, d.Flags)
	b = appendZeros(b, 8)
	return append(b, d.CreateGUID[:]...)
}

// DecodeDurableRequest decodes the data.
func DecodeDurableRequest(b []byte) (DurableRequest, error) {
	if len(b) < durableRequestSize {
		return DurableRequest{}, fault("durable handle request", "", ErrShort)
	}
	return DurableRequest{Timeout: le.Uint32(b), Flags: le.Uint32(b[4:]), CreateGUID: [16]byte(b[16:])}, nil
}

// DurableResponse is the data of CreateContextDurableV2 in a response.
//
// Source: [MS-SMB2 2.2.14.2.12]
type DurableResponse struct {
	// Timeout is the time for which the server keeps the open without a connection, in
	// milliseconds.
	Timeout uint32
	Flags   uint32
}

// AppendTo appends the data.
func (d *DurableResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, d.Timeout)
	return le.AppendUint32(b, d.Flags)
}

// DecodeDurableResponse decodes the data.
func DecodeDurableResponse(b []byte) (DurableResponse, error) {
	if len(b) < durableResponseSize {
		return DurableResponse{}, fault("durable handle response", "", ErrShort)
	}
	return DurableResponse{Timeout: le.Uint32(b), Flags: le.Uint32(b[4:])}, nil
}

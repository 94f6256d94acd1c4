package smbwire

// Dialects.
//
// Source: [MS-SMB2 2.2.3], [MS-SMB2 2.2.4]
const (
	Dialect202 uint16 = 0x0202
	Dialect210 uint16 = 0x0210
	Dialect300 uint16 = 0x0300
	Dialect302 uint16 = 0x0302
	Dialect311 uint16 = 0x0311
	// DialectWildcard is the response to an SMB 1 negotiation: another NEGOTIATE follows.
	DialectWildcard uint16 = 0x02FF
)

// SecurityMode bits.
//
// Source: [MS-SMB2 2.2.3]
const (
	SigningEnabled  uint16 = 0x0001
	SigningRequired uint16 = 0x0002
)

// Capabilities.
//
// Source: [MS-SMB2 2.2.3], [MS-SMB2 2.2.4]
const (
	// CapLeasing is the capability of leases, not in dialect 2.0.2.
	CapLeasing uint32 = 0x00000002
	// CapLargeMTU is the capability of requests that cost several credits.
	CapLargeMTU uint32 = 0x00000004
	// CapPersistentHandles is the capability of persistent handles, in dialects 3.x.
	CapPersistentHandles uint32 = 0x00000010
	// CapDirectoryLeasing is the capability of leases of directories, in dialects 3.x.
	CapDirectoryLeasing uint32 = 0x00000020
	// CapEncryption is the capability of encryption. A server has it in dialects 3.0 and
	// 3.0.2 only, since 3.1.1 has ContextEncryption.
	CapEncryption uint32 = 0x00000040
	// CapNotifications is the capability of notifications of the server, in dialect 3.1.1.
	CapNotifications uint32 = 0x00000080
)

// CreditUnit is the payload that one credit pays for, in bytes.
//
// Source: [MS-SMB2 3.1.5.2]
const CreditUnit = 64 << 10

const (
	negotiateRequestFixed  = 36
	negotiateResponseFixed = 64
)

// NegotiateRequest offers dialects. Contexts are sent if Dialects has 3.1.1, and
// only then decoded.
//
// Source: [MS-SMB2 2.2.3]
type NegotiateRequest struct {
	SecurityMode uint16
	Capabilities uint32
	ClientGUID   [16]byte
	Dialects     []uint16
	Contexts     []NegotiateContext
}

// AppendTo appends the body.
func (r *NegotiateRequest) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, negotiateRequestFixed)
	b = le.AppendUint16(b, uint16(len(r.Dialects)))
	b = le.AppendUint16(b, r.SecurityMode)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.Capabilities)
	b = append(b, r.ClientGUID[:]...)
	b = appendZeros(b, 8)
	b = appendUint16s(b, r.Dialects)
	if !offers311(r.Dialects) {
		return b
	}
	b = pad8(b, start)
	le.PutUint32(b[start+28:], offsetOf(b, start, len(r.Contexts)))
	le.PutUint16(b[start+32:], uint16(len(r.Contexts)))
	return appendNegotiateContexts(b, start, r.Contexts)
}

func offers311(dialects []uint16) bool {
	for _, d := range dialects {
		if d == Dialect311 {
			return true
		}
	}
	return false
}

// DecodeNegotiateRequest decodes a body.
func DecodeNegotiateRequest(body []byte) (NegotiateRequest, error) {
	const name = "NEGOTIATE request"
	if err := checkBody(name, body, negotiateRequestFixed, negotiateRequestFixed); err != nil {
		return NegotiateRequest{}, err
	}
	n := int(le.Uint16(body[2:]))
	if len(body) < negotiateRequestFixed+2*n {
		return NegotiateRequest{}, fault(name, "DialectCount", ErrShort)
	}
	r := NegotiateRequest{
		SecurityMode: le.Uint16(body[4:]),
		Capabilities: le.Uint32(body[8:]),
		ClientGUID:   [16]byte(body[12:28]),
		Dialects:     uint16s(body[negotiateRequestFixed:], n),
	}
	if !offers311(r.Dialects) {
		return r, nil
	}
	var err error
	r.Contexts, err = decodeNegotiateContexts(name, body, negotiateRequestFixed+2*n, le.Uint32(body[28:]), le.Uint16(body[32:]))
	return r, err
}

// NegotiateResponse carries the choices of the server. Contexts are sent with dialect 3.1.1,
// and only then decoded.
//
// Source: [MS-SMB2 2.2.4]
type NegotiateResponse struct {
	SecurityMode uint16
	Dialect      uint16
	ServerGUID   [16]byte
	Capabilities uint32
	// The largest transaction, read and write, in bytes.
	MaxTransactSize, MaxReadSize, MaxWriteSize uint32
	SystemTime, ServerStartTime                Filetime
	// SecurityBuffer is the server's SPNEGO hint.
	SecurityBuffer []byte
	Contexts       []NegotiateContext
}

// AppendTo appends the body.
func (r *NegotiateResponse) AppendTo(b []byte) []byte {
	start := len(b)
	b = le.AppendUint16(b, negotiateResponseFixed+1)
	b = le.AppendUint16(b, r.SecurityMode)
	b = le.AppendUint16(b, r.Dialect)
	b = le.AppendUint16(b, 0)
	b = append(b, r.ServerGUID[:]...)
	b = le.AppendUint32(b, r.Capabilities)
	b = le.AppendUint32(b, r.MaxTransactSize)
	b = le.AppendUint32(b, r.MaxReadSize)
	b = le.AppendUint32(b, r.MaxWriteSize)
	b = le.AppendUint64(b, uint64(r.SystemTime))
	b = le.AppendUint64(b, uint64(r.ServerStartTime))
	b = le.AppendUint16(b, HeaderSize+negotiateResponseFixed)
	b = le.AppendUint16(b, uint16(len(r.SecurityBuffer)))
	b = le.AppendUint32(b, 0)
	b = append(b, r.SecurityBuffer...)
	if r.Dialect != Dialect311 {
		return b
	}
	b = pad8(b, start)
	le.PutUint16(b[start+6:], uint16(len(r.Contexts)))
	le.PutUint32(b[start+60:], offsetOf(b, start, len(r.Contexts)))
	return appendNegotiateContexts(b, start, r.Contexts)
}

// DecodeNegotiateResponse decodes a body.
func DecodeNegotiateResponse(body []byte) (NegotiateResponse, error) {
	const name = "NEGOTIATE response"
	if err := checkBody(name, body, negotiateResponseFixed, negotiateResponseFixed+1); err != nil {
		return NegotiateResponse{}, err
	}
	r := NegotiateResponse{
		SecurityMode:    le.Uint16(body[2:]),
		Dialect:         le.Uint16(body[4:]),
		ServerGUID:      [16]byte(body[8:24]),
		Capabilities:    le.Uint32(body[24:]),
		MaxTransactSize: le.Uint32(body[28:]),
		MaxReadSize:     le.Uint32(body[32:]),
		MaxWriteSize:    le.Uint32(body[36:]),
		SystemTime:      Filetime(le.Uint64(body[40:])),
		ServerStartTime: Filetime(le.Uint64(body[48:])),
	}
	off, n := uint32(le.Uint16(body[56:])), uint32(le.Uint16(body[58:]))
	var err error
	if r.SecurityBuffer, err = span(name, "SecurityBuffer", body, negotiateResponseFixed, off, n); err != nil || r.Dialect != Dialect311 {
		return r, err
	}
	r.Contexts, err = decodeNegotiateContexts(name, body, negotiateResponseFixed, le.Uint32(body[60:]), le.Uint16(body[6:]))
	return r, err
}

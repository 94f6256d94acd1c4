package smbwire

const (
	sessionSetupRequestFixed = 24
)

// SessionFlagBinding in a request binds an existing session to a connection.
const SessionFlagBinding uint8 = 0x01

// Flags of a session in a response.
//
// Source: [MS-SMB2 2.2.6]
const (
	SessionIsGuest     uint16 = 0x0001
	SessionIsNull      uint16 = 0x0002
	SessionEncryptData uint16 = 0x0004
)

// SessionSetupRequest carries a token of the client.
//
// Source: [MS-SMB2 2.2.5]
type SessionSetupRequest struct {
	Flags             uint8
	SecurityMode      uint8
	Capabilities      uint32
	Channel           uint32
	PreviousSessionID uint64
	SecurityBuffer    []byte
}

// AppendTo appends the body.
func (r *SessionSetupRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, sessionSetupRequestFixed+1)
	b = append(b, r.Flags, r.SecurityMode)
	b = le.AppendUint32(b, r.Capabilities)
	b = le.AppendUint32(b, r.Channel)
	b = le.AppendUint16(b, HeaderSize+sessionSetupRequestFixed)
	b = le.AppendUint16(b, uint16(len(r.SecurityBuffer)))
	b = le.AppendUint64(b, r.PreviousSessionID)
	return append(b, r.SecurityBuffer...)
}

// DecodeSessionSetupRequest decodes a body.
func DecodeSessionSetupRequest(body []byte) (SessionSetupRequest, error) {
	const name = "SESSION_SETUP request"
	if err := checkBody(name, body, sessionSetupRequestFixed, sessionSetupRequestFixed+1); err != nil {
		return SessionSetupRequest{}, err
	}
	token, err := span16(name, "SecurityBuffer", body, sessionSetupRequestFixed, 12)
	return SessionSetupRequest{
		Flags:             body[2],
		SecurityMode:      body[3],
		Capabilities:      le.Uint32(body[4:]),
		Channel:           le.Uint32(body[8:]),
		PreviousSessionID: le.Uint64(body[16:]),
		SecurityBuffer:    token,
	}, err
}

// SessionSetupResponse carries a token of the server.
//
// Source: [MS-SMB2 2.2.6]
type SessionSetupResponse struct {
	SessionFlags   uint16
	SecurityBuffer []byte
}

// AppendTo appends the body.
func (r *SessionSetupResponse) AppendTo(b []byte) []byte {
	return appendFlags(b, r.SessionFlags, r.SecurityBuffer)
}

// DecodeSessionSetupResponse decodes a body.
func DecodeSessionSetupResponse(body []byte) (SessionSetupResponse, error) {
	flags, token, err := decodeFlags("SESSION_SETUP response", "SecurityBuffer", body)
	return SessionSetupResponse{SessionFlags: flags, SecurityBuffer: token}, err
}

package smbauth

import (
	"encoding/binary"
	"fmt"
)

// authenticateMessage is NTLM's third message, from the client.
//
// Source: [MS-NLMP 2.2.1.3]
type authenticateMessage struct {
	Flags       uint32
	LM          []byte
	NT          []byte
	Domain      string
	User        string
	Workstation string
	SessionKey  []byte // encrypted random session key, empty without key exchange
}

// appendTo appends the message with a VERSION structure and a zero MIC at
// authenticateMICOff.
func (m *authenticateMessage) appendTo(b []byte) []byte {
	domain, user := appendUTF16(nil, m.Domain), appendUTF16(nil, m.User)
	station := appendUTF16(nil, m.Workstation)
	b = appendNTLMHead(b, ntlmAuthenticate)
	payload := [...][]byte{m.LM, m.NT, domain, user, station, m.SessionKey}
	off := authenticateSize
	for _, p := range payload {
		b = appendNTLMField(b, len(p), off)
		off += len(p)
	}
	b = binary.LittleEndian.AppendUint32(b, m.Flags|flagVersion)
	b = append(b, ntlmVersion[:]...)
	b = append(b, make([]byte, 16)...)
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

// decodeAuthenticate decodes b; the byte slices of the result point into b. The AV pairs of
// NT, not the layout, indicate whether a MIC is present.
func decodeAuthenticate(b []byte) (authenticateMessage, error) {
	if err := checkNTLM(b, ntlmAuthenticate, authenticateMinSize); err != nil {
		return authenticateMessage{}, err
	}
	m := authenticateMessage{Flags: binary.LittleEndian.Uint32(b[60:])}
	if m.Flags&flagUnicode == 0 {
		return m, fmt.Errorf("NTLM names not in Unicode: %w", ErrWeak)
	}
	var domain, user, station []byte
	for i, p := range [...]*[]byte{&m.LM, &m.NT, &domain, &user, &station, &m.SessionKey} {
		var err error
		if *p, err = ntlmField(b, 12+8*i, authenticateMinSize); err != nil {
			return authenticateMessage{}, err
		}
	}
	for _, t := range []struct {
		to  *string
		raw []byte
	}{{&m.Domain, domain}, {&m.User, user}, {&m.Workstation, station}} {
		s, ok := utf16String(t.raw)
		if !ok {
			return authenticateMessage{}, fmt.Errorf("NTLM name of %d bytes: %w", len(t.raw), ErrToken)
		}
		*t.to = s
	}
	return m, nil
}

package smbauth

import "encoding/binary"

// negotiateMessage is NTLM's first message, from the client. The name fields are OEM text
// and are not used.
//
// Source: [MS-NLMP 2.2.1.1]
type negotiateMessage struct {
	Flags       uint32
	Domain      []byte
	Workstation []byte
}

// appendTo appends the message with a VERSION structure.
func (m *negotiateMessage) appendTo(b []byte) []byte {
	b = appendNTLMHead(b, ntlmNegotiate)
	b = binary.LittleEndian.AppendUint32(b, m.Flags|flagVersion)
	b = appendNTLMField(b, len(m.Domain), negotiateSize)
	b = appendNTLMField(b, len(m.Workstation), negotiateSize+len(m.Domain))
	b = append(b, ntlmVersion[:]...)
	b = append(b, m.Domain...)
	return append(b, m.Workstation...)
}

// decodeNegotiate decodes b; the result points into b.
func decodeNegotiate(b []byte) (negotiateMessage, error) {
	if err := checkNTLM(b, ntlmNegotiate, negotiateMinSize); err != nil {
		return negotiateMessage{}, err
	}
	m := negotiateMessage{Flags: binary.LittleEndian.Uint32(b[12:])}
	minOff := negotiateMinSize
	if m.Flags&flagVersion != 0 {
		minOff = negotiateSize
		if err := checkNTLM(b, ntlmNegotiate, minOff); err != nil {
			return negotiateMessage{}, err
		}
	}
	var err error
	if m.Flags&flagDomainSupplied != 0 {
		if m.Domain, err = ntlmField(b, 16, minOff); err != nil {
			return negotiateMessage{}, err
		}
	}
	if m.Flags&flagWorkstation != 0 {
		if m.Workstation, err = ntlmField(b, 24, minOff); err != nil {
			return negotiateMessage{}, err
		}
	}
	return m, nil
}

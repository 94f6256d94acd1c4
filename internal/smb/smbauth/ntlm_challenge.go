package smbauth

import (
	"encoding/binary"
	"fmt"
)

// challengeMessage is NTLM's second message, from the server.
//
// Source: [MS-NLMP 2.2.1.2]
type challengeMessage struct {
	Flags      uint32
	Challenge  [8]byte
	TargetName string
	TargetInfo []byte // encoded AV pairs, with their end mark
}

// appendTo appends the message with a VERSION structure.
func (m *challengeMessage) appendTo(b []byte) []byte {
	name := appendUTF16(nil, m.TargetName)
	b = appendNTLMHead(b, ntlmChallenge)
	b = appendNTLMField(b, len(name), challengeSize)
	b = binary.LittleEndian.AppendUint32(b, m.Flags|flagVersion)
	b = append(b, m.Challenge[:]...)
	b = append(b, make([]byte, 8)...)
	b = appendNTLMField(b, len(m.TargetInfo), challengeSize+len(name))
	b = append(b, ntlmVersion[:]...)
	b = append(b, name...)
	return append(b, m.TargetInfo...)
}

// decodeChallenge decodes b; TargetInfo points into b.
func decodeChallenge(b []byte) (challengeMessage, error) {
	if err := checkNTLM(b, ntlmChallenge, challengeMinSize); err != nil {
		return challengeMessage{}, err
	}
	m := challengeMessage{Flags: binary.LittleEndian.Uint32(b[20:]), Challenge: [8]byte(b[24:32])}
	minOff := challengeMinSize
	if m.Flags&flagVersion != 0 {
		minOff = challengeSize
		if err := checkNTLM(b, ntlmChallenge, minOff); err != nil {
			return challengeMessage{}, err
		}
	}
	name, err := ntlmField(b, 12, minOff)
	if err != nil {
		return challengeMessage{}, err
	}
	if m.Flags&flagUnicode != 0 {
		s, ok := utf16String(name)
		if !ok {
			return challengeMessage{}, fmt.Errorf("NTLM target name of %d bytes: %w", len(name), ErrToken)
		}
		m.TargetName = s
	}
	if m.Flags&flagTargetInfo != 0 {
		if m.TargetInfo, err = ntlmField(b, 40, minOff); err != nil {
			return challengeMessage{}, err
		}
	}
	return m, nil
}

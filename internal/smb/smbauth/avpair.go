package smbauth

import (
	"encoding/binary"
	"fmt"
)

// AV pair ids of the target information.
//
// Source: [MS-NLMP 2.2.2.1]
const (
	avEOL             = 0
	avNbComputerName  = 1
	avNbDomainName    = 2
	avDNSComputerName = 3
	avDNSDomainName   = 4
	avFlags           = 6
	avTimestamp       = 7
	avTargetName      = 9
	avChannelBindings = 10
)

// avFlagMIC is the bit of avFlags that announces a MIC in AUTHENTICATE.
const avFlagMIC = 0x2

// maxAVPairs bounds the pairs of a message; real messages have ten.
const maxAVPairs = 64

// avPair is one attribute of the target information.
type avPair struct {
	ID    uint16
	Value []byte
}

// decodeAVPairs decodes pairs up to the end mark, which is compulsory. Values point into b;
// rest is the bytes behind the mark.
func decodeAVPairs(b []byte) (pairs []avPair, rest []byte, err error) {
	for len(pairs) < maxAVPairs {
		if len(b) < 4 {
			return nil, nil, fmt.Errorf("NTLM target information cut short: %w", ErrToken)
		}
		id, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		b = b[4:]
		if n > len(b) {
			return nil, nil, fmt.Errorf("NTLM attribute %d of %d bytes, %d left: %w", id, n, len(b), ErrToken)
		}
		if id == avEOL {
			if n != 0 {
				return nil, nil, fmt.Errorf("NTLM end mark of %d bytes: %w", n, ErrToken)
			}
			return pairs, b, nil
		}
		pairs = append(pairs, avPair{ID: id, Value: b[:n:n]})
		b = b[n:]
	}
	return nil, nil, fmt.Errorf("NTLM target information of more than %d attributes: %w", maxAVPairs, ErrToken)
}

// appendAVPairs appends pairs and the end mark.
func appendAVPairs(b []byte, pairs []avPair) []byte {
	for _, p := range pairs {
		b = binary.LittleEndian.AppendUint16(b, p.ID)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Value)))
		b = append(b, p.Value...)
	}
	return append(b, 0, 0, 0, 0)
}

// findAV returns the value of the first pair with the id.
func findAV(pairs []avPair, id uint16) ([]byte, bool) {
	for _, p := range pairs {
		if p.ID == id {
			return p.Value, true
		}
	}
	return nil, false
}

// hasMIC reports whether pairs announce a MIC.
func hasMIC(pairs []avPair) bool {
	v, ok := findAV(pairs, avFlags)
	return ok && len(v) == 4 && binary.LittleEndian.Uint32(v)&avFlagMIC != 0
}

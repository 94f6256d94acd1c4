package smbauth

import (
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/crypto/md4" //nolint:staticcheck // NTLM prescribes it
)

// NTHash returns the hash of a password that NTLM uses. It is equivalent to the password
// and must be kept as secret.
//
// Source: [MS-NLMP 3.3.1] (NTOWFv1)
func NTHash(password string) [16]byte {
	h := md4.New()
	h.Write(appendUTF16(nil, password))
	return [16]byte(h.Sum(nil))
}

// hmacMD5 returns the HMAC-MD5 of the concatenated parts.
func hmacMD5(key []byte, parts ...[]byte) [16]byte {
	h := hmac.New(md5.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return [16]byte(h.Sum(nil))
}

// ntowfv2 returns the hash of the password bound to user and domain.
//
// Source: [MS-NLMP 3.3.2]
func ntowfv2(ntHash [16]byte, domain, user string) [16]byte {
	return hmacMD5(ntHash[:], appendUTF16(appendUTF16(nil, upper(user)), domain))
}

// clientChallengeHead is the size of an NTLMv2 client challenge before its AV pairs, in
// bytes.
const clientChallengeHead = 28

// ntlmv1ResponseSize is the size of every LM and NTLMv1 response, in bytes.
const ntlmv1ResponseSize = 24

// appendClientChallenge appends the structure that an NTLMv2 response proves.
//
// Source: [MS-NLMP 2.2.2.7]
func appendClientChallenge(b []byte, timestamp uint64, nonce [8]byte, pairs []avPair) []byte {
	b = append(b, 1, 1, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, timestamp)
	b = append(b, nonce[:]...)
	b = append(b, 0, 0, 0, 0)
	b = appendAVPairs(b, pairs)
	return append(b, 0, 0, 0, 0)
}

// decodeNTLMv2Response splits an NTLMv2 response into its proof, the proven client
// challenge, and the AV pairs of the challenge. Older responses are refused as weak.
//
// Source: [MS-NLMP 2.2.2.8]
func decodeNTLMv2Response(nt []byte) (proof [16]byte, challenge []byte, pairs []avPair, err error) {
	if len(nt) <= ntlmv1ResponseSize {
		return proof, nil, nil, fmt.Errorf("NT response of %d bytes is no NTLMv2: %w", len(nt), ErrWeak)
	}
	if len(nt) < 16+clientChallengeHead {
		return proof, nil, nil, fmt.Errorf("NTLMv2 response of %d bytes: %w", len(nt), ErrToken)
	}
	challenge = nt[16:]
	if challenge[0] != 1 || challenge[1] != 1 {
		return proof, nil, nil, fmt.Errorf("NTLMv2 response of version %d.%d: %w", challenge[0], challenge[1], ErrToken)
	}
	pairs, _, err = decodeAVPairs(challenge[clientChallengeHead:])
	return [16]byte(nt[:16]), challenge, pairs, err
}

// ntProof returns the proof of an NTLMv2 response.
//
// Source: [MS-NLMP 3.3.2] (NTProofStr)
func ntProof(owf [16]byte, serverChallenge [8]byte, clientChallenge []byte) [16]byte {
	return hmacMD5(owf[:], serverChallenge[:], clientChallenge)
}

// filetimeEpoch is the distance from 1601 to 1970 in units of 100 ns.
const filetimeEpoch = 116444736000000000

// filetime converts t to units of 100 ns since 1601.
func filetime(t time.Time) uint64 { return uint64(t.UnixNano()/100 + filetimeEpoch) }

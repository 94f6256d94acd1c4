package smbauth

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"slices"
)

// emptyHash is the NT hash of the empty password, with which no user can log on.
var emptyHash = NTHash("")

// authenticate checks an NTLM AUTHENTICATE message and derives the session key. It takes the
// same steps for known and for unknown users.
//
// Source: [MS-NLMP 3.2.5.1.2], [MS-NLMP 3.3.2]
func (a *Acceptor) authenticate(in []byte) (keyExchange bool, err error) {
	m, err := decodeAuthenticate(in)
	if err != nil {
		return false, err
	}
	a.domain, a.user = m.Domain, m.User
	if m.Flags&flagAnonymous != 0 || m.User == "" || len(m.NT) == 0 {
		return false, ErrAnonymous
	}
	proof, proven, pairs, err := decodeNTLMv2Response(m.NT)
	if err != nil {
		return false, err
	}
	name, hash, known := a.cfg.Lookup(m.Domain, m.User)
	if known = known && hash != emptyHash; !known {
		rand.Read(hash[:])
	}
	owf := ntowfv2(hash, m.Domain, m.User)
	want := ntProof(owf, a.nonce, proven)
	if subtle.ConstantTimeCompare(want[:], proof[:]) != 1 || !known {
		return false, ErrCredentials
	}
	key := hmacMD5(owf[:], proof[:])
	if keyExchange = m.Flags&a.flags&flagKeyExchange != 0; keyExchange {
		if len(m.SessionKey) != 16 {
			return false, fmt.Errorf("NTLM session key of %d bytes: %w", len(m.SessionKey), ErrToken)
		}
		key = rc4Key(key, [16]byte(m.SessionKey))
	}
	if hasMIC(pairs) {
		if err := a.checkMIC(key, in); err != nil {
			return false, err
		}
	}
	a.name, a.sessionKey = name, key[:]
	return keyExchange, nil
}

// checkMIC verifies the MIC over all three NTLM messages, if the client announces one. The
// user's password protects the announcement.
//
// Source: [MS-NLMP 3.2.5.1.2]
func (a *Acceptor) checkMIC(key [16]byte, authenticate []byte) error {
	if len(authenticate) < authenticateSize {
		return fmt.Errorf("NTLM message without the code it announces: %w", ErrToken)
	}
	bare := slices.Clone(authenticate)
	clear(bare[authenticateMICOff:authenticateSize])
	want := hmacMD5(key[:], a.negotiate, a.challenge, bare)
	if subtle.ConstantTimeCompare(want[:], authenticate[authenticateMICOff:authenticateSize]) != 1 {
		return fmt.Errorf("NTLM messages: %w", ErrIntegrity)
	}
	return nil
}

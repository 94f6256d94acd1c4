package smbauth

import (
	"crypto/md5"
	"crypto/rc4" //nolint:gosec // NTLM prescribes it
	"crypto/subtle"
	"encoding/binary"
)

// NTLM derives its four keys from these texts.
//
// Source: [MS-NLMP 3.4.5.2], [MS-NLMP 3.4.5.3]
const (
	magicClientSign = "session key to client-to-server signing key magic constant\x00"
	magicServerSign = "session key to server-to-client signing key magic constant\x00"
	magicClientSeal = "session key to client-to-server sealing key magic constant\x00"
	magicServerSeal = "session key to server-to-client sealing key magic constant\x00"
)

// ntlmSigner makes or checks the signatures of one direction, in order.
type ntlmSigner struct {
	signKey [16]byte
	seal    *rc4.Cipher // nil without key exchange
	seq     uint32
}

// newNTLMSigner returns the signer of one direction.
func newNTLMSigner(sessionKey [16]byte, fromClient, keyExchange bool) *ntlmSigner {
	sign, seal := magicServerSign, magicServerSeal
	if fromClient {
		sign, seal = magicClientSign, magicClientSeal
	}
	s := &ntlmSigner{signKey: deriveMD5(sessionKey, sign)}
	if keyExchange {
		key := deriveMD5(sessionKey, seal)
		s.seal = newRC4(key)
	}
	return s
}

// mic returns the signature of msg and advances the sequence number.
//
// Source: [MS-NLMP 3.4.4.2] (with extended session security)
func (s *ntlmSigner) mic(msg []byte) [16]byte {
	var seq [4]byte
	binary.LittleEndian.PutUint32(seq[:], s.seq)
	sum := hmacMD5(s.signKey[:], seq[:], msg)
	if s.seal != nil {
		s.seal.XORKeyStream(sum[:8], sum[:8])
	}
	out := [16]byte{0: 1}
	copy(out[4:12], sum[:8])
	copy(out[12:], seq[:])
	s.seq++
	return out
}

// verify checks the signature of msg in constant time and advances the sequence number.
func (s *ntlmSigner) verify(msg, mic []byte) bool {
	want := s.mic(msg)
	return subtle.ConstantTimeCompare(want[:], mic) == 1
}

// deriveMD5 hashes a session key with a text.
func deriveMD5(key [16]byte, text string) [16]byte {
	return md5.Sum(append(key[:], text...))
}

// newRC4 returns the cipher of a 16-byte key. NewCipher cannot fail for this length.
func newRC4(key [16]byte) *rc4.Cipher {
	c, err := rc4.NewCipher(key[:])
	if err != nil {
		panic("smbauth: rc4 refuses a 16-byte key: " + err.Error())
	}
	return c
}

// rc4Key encrypts or decrypts a session key under another key.
//
// Source: [MS-NLMP 3.4.5.1] (RC4K)
func rc4Key(under, key [16]byte) (out [16]byte) {
	newRC4(under).XORKeyStream(out[:], key[:])
	return out
}

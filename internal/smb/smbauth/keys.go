package smbauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// Dialects with key derivations of their own.
//
// Source: [MS-SMB2 2.2.3]
const (
	Dialect210 = 0x0210
	Dialect300 = 0x0300
	Dialect302 = 0x0302
	Dialect311 = 0x0311
)

// SessionKeys are the keys of one SMB session.
//
// Source: [MS-SMB2 3.1.4.2], [MS-SMB2 3.3.5.5.3]
type SessionKeys struct {
	Signing     [16]byte
	Application [16]byte
	// ClientToServer and ServerToClient are the keys of the cipher; zero with NoCipher.
	ClientToServer CipherKey
	ServerToClient CipherKey
}

// DeriveKeys derives the keys of a session from the key of its authentication. Its first 16
// bytes, with zeros if it is shorter, are the session key; ciphers with keys of 256 bits use
// all of it. preauthHash is the session's pre-authentication hash, which dialect 3.1.1 uses. c is
// the cipher of the connection, NoCipher for none. Below 3.0 the session key itself signs, and c
// is ignored.
//
// Source: [MS-SMB2 3.1.4.2], [MS-SMB2 3.3.5.5.3], [MS-SMB2 3.3.1.8] (Session.FullSessionKey)
func DeriveKeys(dialect uint16, c Cipher, fullKey []byte, preauthHash [64]byte) SessionKeys {
	var sessionKey [16]byte
	copy(sessionKey[:], fullKey)
	cipherBase := sessionKey[:]
	if c.keySize() > len(sessionKey) && len(fullKey) > len(sessionKey) {
		cipherBase = fullKey
	}
	switch {
	case dialect >= Dialect311:
		ctx := string(preauthHash[:])
		return SessionKeys{
			Signing:        kdf16(sessionKey, "SMBSigningKey\x00", ctx),
			Application:    kdf16(sessionKey, "SMBAppKey\x00", ctx),
			ClientToServer: cipherKey(c, cipherBase, "SMBC2SCipherKey\x00", ctx),
			ServerToClient: cipherKey(c, cipherBase, "SMBS2CCipherKey\x00", ctx),
		}
	case dialect >= Dialect300:
		return SessionKeys{
			Signing:        kdf16(sessionKey, "SMB2AESCMAC\x00", "SmbSign\x00"),
			Application:    kdf16(sessionKey, "SMB2APP\x00", "SmbRpc\x00"),
			ClientToServer: cipherKey(c, cipherBase, "SMB2AESCCM\x00", "ServerIn \x00"),
			ServerToClient: cipherKey(c, cipherBase, "SMB2AESCCM\x00", "ServerOut\x00"),
		}
	default:
		return SessionKeys{Signing: sessionKey, Application: sessionKey}
	}
}

// cipherKey derives a key of the length that a cipher needs.
func cipherKey(c Cipher, key []byte, label, context string) (out CipherKey) {
	copy(out[:], kdf(key, []byte(label), []byte(context), c.keySize()))
	return out
}

func kdf16(key [16]byte, label, context string) (out [16]byte) {
	copy(out[:], kdf(key[:], []byte(label), []byte(context), len(out)))
	return out
}

// kdf returns n bytes of SP800-108's key derivation in counter mode with HMAC-SHA-256 and
// 32-bit counter and length.
//
// Source: [MS-SMB2 3.1.4.2], [NIST SP 800-108 §5.1]
func kdf(key, label, context []byte, n int) []byte {
	var out []byte
	for i := uint32(1); len(out) < n; i++ {
		h := hmac.New(sha256.New, key)
		var num [4]byte
		binary.BigEndian.PutUint32(num[:], i)
		h.Write(num[:])
		h.Write(label)
		h.Write([]byte{0})
		h.Write(context)
		binary.BigEndian.PutUint32(num[:], uint32(n)*8)
		h.Write(num[:])
		out = h.Sum(out)
	}
	return out[:n]
}

// PreauthHash is the running SHA-512 over the messages that precede a session. The zero
// value is the hash of a new connection.
//
// Source: [MS-SMB2 3.1.4.4.1]
type PreauthHash [64]byte

// Update adds one whole message, from its SMB2 header.
func (p *PreauthHash) Update(msg []byte) {
	h := sha512.New()
	h.Write(p[:])
	h.Write(msg)
	h.Sum(p[:0])
}

package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// SealSuites is a set of suites that seal a connection, in option 0x83.
//
// Source: [OP-114b]
type SealSuites uint8

// SealAES128GCM is AES-128-GCM, the only suite.
const SealAES128GCM SealSuites = 1 << 0

// SealKeySize is the size of the key of one direction of a sealed connection, in bytes.
const SealKeySize = 16

// sealKeyLabel is the label of DeriveSealKey.
const sealKeyLabel = "LWIO SEAL "

// DeriveSealKey derives the key of one direction of a sealed connection, of 16 bytes. role is the sender
// of the messages that it seals. authKey is the key of option 0x80, nonce the client's nonce in option 0x80,
// and binding the value of option 0x82, which depends on the server's nonce.
//
// It is the beginning of one block of the counter mode of SP800-108 with HMAC-SHA-256:
// HMAC(authKey, 00000001 | "LWIO SEAL " | role | 00 | nonce | binding | 00000080), counter and length
// (in bits) big-endian.
//
// Source: [OP-114b]
func DeriveSealKey(authKey []byte, role Role, nonce [16]byte, binding [BindingSize]byte) (key [SealKeySize]byte) {
	m := hmac.New(sha256.New, authKey)
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], 1)
	m.Write(n[:])
	m.Write([]byte(sealKeyLabel))
	m.Write([]byte{byte(role), 0})
	m.Write(nonce[:])
	m.Write(binding[:])
	binary.BigEndian.PutUint32(n[:], 8*SealKeySize)
	m.Write(n[:])
	copy(key[:], m.Sum(nil))
	return key
}

package kerberos

import (
	"crypto/hmac"
	"encoding/binary"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// Numbers of keys for their use.
//
// Source: [RFC 4120 §7.5.1], [RFC 4121 §2]
const (
	usageTicket        = 2
	usageAuthenticator = 11
	usageReply         = 12
	usageMICAcceptor   = 23
	usageMICInitiator  = 25
)

// cipher has the sizes of an encryption type, in bytes.
type cipher struct{ key, code int }

// confounder is the random part before each plain text, in bytes.
const confounder = 16

// cipherOf returns an encryption type of RFC 3962 or RFC 8009; ok is false for any other one.
func cipherOf(id int32) (c cipher, ok bool) {
	switch id {
	case etypeID.AES128_CTS_HMAC_SHA1_96:
		return cipher{16, 12}, true
	case etypeID.AES256_CTS_HMAC_SHA1_96:
		return cipher{32, 12}, true
	case etypeID.AES128_CTS_HMAC_SHA256_128:
		return cipher{16, 16}, true
	case etypeID.AES256_CTS_HMAC_SHA384_192:
		return cipher{32, 24}, true
	}
	return cipher{}, false
}

// checkKey returns the encryption type of a key.
func checkKey(key types.EncryptionKey) (cipher, error) {
	c, ok := cipherOf(key.KeyType)
	if !ok || len(key.KeyValue) != c.key {
		return c, fmt.Errorf("a key of type %d with %d bytes: %w", key.KeyType, len(key.KeyValue), smbauth.ErrTicket)
	}
	return c, nil
}

// decrypt returns the plain text of an encrypted part, which has the integrity of its key. The library
// expects the lengths that are checked here.
func decrypt(p smbauth.KerberosCipher, key types.EncryptionKey, usage uint32) ([]byte, error) {
	c, err := checkKey(key)
	if err != nil {
		return nil, err
	}
	if p.Type != key.KeyType || len(p.Cipher) <= confounder+c.code {
		return nil, fmt.Errorf("an encrypted part of type %d with %d bytes, key of type %d: %w", p.Type, len(p.Cipher), key.KeyType, smbauth.ErrTicket)
	}
	plain, err := crypto.DecryptMessage(p.Cipher, key, usage)
	if err != nil {
		return nil, fmt.Errorf("another key, or changed on the way: %w", smbauth.ErrTicket)
	}
	return plain, nil
}

// encrypt returns the encrypted part of a plain text.
func encrypt(plain []byte, key types.EncryptionKey, usage uint32) (smbauth.KerberosCipher, error) {
	ed, err := crypto.GetEncryptedData(plain, key, usage, 0)
	return smbauth.KerberosCipher{Type: ed.EType, Cipher: ed.Cipher}, err
}

// newKey returns a random key of the type of another.
func newKey(like types.EncryptionKey) types.EncryptionKey {
	return types.EncryptionKey{KeyType: like.KeyType, KeyValue: random(len(like.KeyValue))}
}

// Flags of codes.
//
// Source: [RFC 4121 §4.2.2]
const (
	sentByAcceptor = 1
	acceptorSubkey = 4
)

// codes makes and checks the codes of one context. The zero value is not usable.
//
// Source: [RFC 4121 §4.2.6.1]
type codes struct {
	key   types.EncryptionKey
	flags byte   // acceptorSubkey or 0
	seq   uint64 // of the first code of this side
	// acceptor is whether this side is the acceptor.
	acceptor bool
}

// mic returns the code of this side over data. All contexts make at most one code.
func (c *codes) mic(data []byte) []byte {
	head := micHead(c.flagsOf(c.acceptor), c.seq)
	sum := c.sum(head, data, c.acceptor)
	return append(head, sum...)
}

// verify checks a code of the other side. The code covers its own header.
func (c *codes) verify(data, mic []byte) bool {
	const size = 16
	k, err := checkKey(c.key)
	if err != nil || len(mic) != size+k.code {
		return false
	}
	head := micHead(c.flagsOf(!c.acceptor), binary.BigEndian.Uint64(mic[8:]))
	sum := c.sum(head, data, !c.acceptor)
	return sum != nil && hmac.Equal(append(head, sum...), mic)
}

func (c *codes) flagsOf(acceptor bool) byte {
	if acceptor {
		return c.flags | sentByAcceptor
	}
	return c.flags
}

// micHead returns the header of a code.
func micHead(flags byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{4, 4, flags, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, seq)
}

// sum returns the checksum over data and the header; nil if the key cannot be used.
func (c *codes) sum(head, data []byte, acceptor bool) []byte {
	usage := uint32(usageMICInitiator)
	if acceptor {
		usage = usageMICAcceptor
	}
	e, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return nil
	}
	sum, err := e.GetChecksumHash(c.key.KeyValue, append(data[:len(data):len(data)], head...), usage)
	if err != nil {
		return nil
	}
	return sum
}

// guard turns a panic of the library into an error. Lengths are checked before; this is the second
// line of defence.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic of the library: %v: %w", p, smbauth.ErrTicket)
	}
}

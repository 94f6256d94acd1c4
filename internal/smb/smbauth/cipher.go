package smbauth

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"lwio/internal/smb/smbwire"
)

// Cipher is an encryption algorithm as the negotiate context numbers it.
//
// Source: [MS-SMB2 2.2.3.1.2]
type Cipher uint16

// The ciphers of SMB 3. NoCipher means that a connection has no encryption.
const (
	NoCipher  Cipher = 0
	AES128CCM        = Cipher(smbwire.CipherAES128CCM)
	AES128GCM        = Cipher(smbwire.CipherAES128GCM)
	AES256CCM        = Cipher(smbwire.CipherAES256CCM)
	AES256GCM        = Cipher(smbwire.CipherAES256GCM)
)

// Ciphers are all ciphers, in the order of preference: the fastest first.
var Ciphers = []Cipher{AES128GCM, AES256GCM, AES128CCM, AES256CCM}

// DefaultCipher returns the cipher of a dialect that negotiates none: NoCipher if the dialect
// has no encryption.
//
// Source: [MS-SMB2 3.3.5.4]
func DefaultCipher(dialect uint16) Cipher {
	if dialect == Dialect300 || dialect == Dialect302 {
		return AES128CCM
	}
	return NoCipher
}

// String returns the name of the cipher.
func (c Cipher) String() string {
	switch c {
	case NoCipher:
		return "none"
	case AES128CCM:
		return "AES-128-CCM"
	case AES128GCM:
		return "AES-128-GCM"
	case AES256CCM:
		return "AES-256-CCM"
	case AES256GCM:
		return "AES-256-GCM"
	}
	return "unknown cipher"
}

// keySize returns the length of a key, in bytes; zero for NoCipher.
func (c Cipher) keySize() int {
	switch c {
	case AES128CCM, AES128GCM:
		return 16
	case AES256CCM, AES256GCM:
		return 32
	}
	return 0
}

// CipherKey is the key of one direction. A cipher with keys of 128 bits uses the first half.
type CipherKey [32]byte

// TagSize is the number of bytes behind a message that Encrypt and Decrypt use, in addition
// to the message.
const TagSize = 16

// ccmNonceSize is the length of a nonce of CCM, in bytes.
//
// Source: [MS-SMB2 2.2.41]
const ccmNonceSize = 11

// newAEAD returns the AEAD of a cipher. Precondition: c is one of Ciphers.
func newAEAD(c Cipher, key *CipherKey) cipher.AEAD {
	block, err := aes.NewCipher(key[:c.keySize()])
	if err != nil {
		panic(fmt.Sprintf("smbauth: %v has no key: %v", c, err))
	}
	if c == AES128CCM || c == AES256CCM {
		return newCCM(block, ccmNonceSize, TagSize)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("smbauth: GCM refuses AES: " + err.Error())
	}
	return gcm
}

// maxBlocks bounds the data that one key encrypts: 2^48 blocks of 16 bytes, 4 PiB. An
// attacker that sees all of them distinguishes them from random bytes with a probability of
// about 2^-33.
const maxBlocks = 1 << 48

// ErrKeyUsedUp reports that a key has encrypted as much data as it may. The session needs a
// new key, so its connection ends.
var ErrKeyUsedUp = errors.New("the key of the session has encrypted the most data that it may")

// Encrypter encrypts the messages of one direction of a session. It is safe for concurrent
// use with different messages.
//
// The nonce of a message is the number of blocks that the key has encrypted before. The
// number grows with every message and never decreases, so no nonce is used twice.
//
// Source: [MS-SMB2 3.1.4.3]
type Encrypter struct {
	aead   cipher.AEAD
	blocks atomic.Uint64 // encrypted so far, at most maxBlocks
}

// NewEncrypter returns an encrypter for a key that no other encrypter has used. Precondition:
// c is one of Ciphers.
func NewEncrypter(c Cipher, key CipherKey) *Encrypter { return &Encrypter{aead: newAEAD(c, &key)} }

// take reserves the blocks of a message and returns its nonce.
func (e *Encrypter) take(blocks uint64) (nonce uint64, err error) {
	for {
		nonce = e.blocks.Load()
		if nonce+blocks > maxBlocks {
			return 0, ErrKeyUsedUp
		}
		if e.blocks.CompareAndSwap(nonce, nonce+blocks) {
			return nonce, nil
		}
	}
}

// Encrypt encrypts a message in place, and writes the transform header. msg has room for the
// header, and then the message. Precondition: msg has a capacity of TagSize bytes more.
//
// Errors: ErrKeyUsedUp.
func (e *Encrypter) Encrypt(msg []byte, sessionID uint64) error {
	if cap(msg)-len(msg) < TagSize {
		panic("smbauth: no room for the tag of a message")
	}
	plain := msg[smbwire.TransformHeaderSize:]
	nonce, err := e.take(uint64(len(plain)/blockSize) + 2) // with the rest and the tag
	if err != nil {
		return err
	}
	h := smbwire.TransformHeader{OriginalMessageSize: uint32(len(plain)), SessionID: sessionID}
	binary.LittleEndian.PutUint64(h.Nonce[:], nonce)
	h.Put(msg)
	sealed := e.aead.Seal(plain[:0], transformNonce(msg, e.aead), plain, transformData(msg))
	copy(transformTag(msg), sealed[len(plain):])
	return nil
}

// Decrypter decrypts the messages of one direction of a session. It is safe for concurrent
// use with different messages.
//
// Source: [MS-SMB2 3.1.5.3]
type Decrypter struct{ aead cipher.AEAD }

// NewDecrypter returns a decrypter. Precondition: c is one of Ciphers.
func NewDecrypter(c Cipher, key CipherKey) *Decrypter { return &Decrypter{newAEAD(c, &key)} }

// Decrypt decrypts a message in place: msg is its transform header and the encrypted bytes.
// It returns the part of msg behind the header, or a copy if msg has no capacity of TagSize
// bytes more. These bytes are overwritten.
//
// Errors: ErrDecryption for a message that the peer has not encrypted, or not for this
// session. No decrypted byte is left in msg.
func (d *Decrypter) Decrypt(msg []byte) ([]byte, error) {
	h, err := smbwire.DecodeTransformHeader(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecryption, err)
	}
	if uint64(h.OriginalMessageSize) != uint64(len(msg)-smbwire.TransformHeaderSize) {
		return nil, fmt.Errorf("%w: %d bytes, the header says %d", ErrDecryption, len(msg)-smbwire.TransformHeaderSize, h.OriginalMessageSize)
	}
	msg = slices.Grow(msg, TagSize)
	body := msg[smbwire.TransformHeaderSize:]
	sealed := append(body, transformTag(msg)...)
	if _, err := d.aead.Open(body[:0], transformNonce(msg, d.aead), sealed, transformData(msg)); err != nil {
		return nil, ErrDecryption
	}
	return body, nil
}

// transformTag returns the signature in a transform header.
func transformTag(msg []byte) []byte { return msg[4 : 4+TagSize] }

// transformData returns the part of a transform header that the signature covers.
func transformData(msg []byte) []byte { return msg[4+TagSize : smbwire.TransformHeaderSize] }

// transformNonce returns the nonce in a transform header.
func transformNonce(msg []byte, a cipher.AEAD) []byte { return transformData(msg)[:a.NonceSize()] }

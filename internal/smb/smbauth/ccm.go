package smbauth

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const blockSize = 16

// maxCCMData bounds the additional data of a message, in bytes: longer data have another form
// of their length.
const maxCCMData = 0xFEFF

// errOpen reports a message whose tag is wrong.
var errOpen = errors.New("message authentication failed")

// ccm is CCM, the AEAD of dialect 3.0: CTR for secrecy, and CBC-MAC for integrity. It works
// in place. It is safe for concurrent use.
//
// Source: [RFC 3610], [NIST SP 800-38C]
type ccm struct {
	block              cipher.Block
	nonceSize, tagSize int
	pool               sync.Pool // of *ccmState, because the arguments of a cipher.Block escape
}

// ccmState is the state of one message.
type ccmState struct {
	mac   [blockSize]byte
	first [blockSize]byte // A_0, then S_0, which encrypts the tag
}

// newCCM returns CCM for nonces of 7 to 13 bytes and tags of 4 to 16, an even number.
func newCCM(block cipher.Block, nonceSize, tagSize int) cipher.AEAD {
	if block.BlockSize() != blockSize || nonceSize < 7 || nonceSize > 13 || tagSize < 4 || tagSize > 16 || tagSize%2 != 0 {
		panic(fmt.Sprintf("smbauth: CCM with nonces of %d bytes and tags of %d", nonceSize, tagSize))
	}
	c := &ccm{block: block, nonceSize: nonceSize, tagSize: tagSize}
	c.pool.New = func() any { return new(ccmState) }
	return c
}

func (c *ccm) NonceSize() int { return c.nonceSize }
func (c *ccm) Overhead() int  { return c.tagSize }

// begin starts a message of n bytes. It computes the MAC of B_0 and of the additional data,
// and S_0, and returns the key stream from S_1 on.
//
// Source: [RFC 3610 §2.2], [RFC 3610 §2.3]
func (c *ccm) begin(s *ccmState, nonce, data []byte, n int) cipher.Stream {
	field := blockSize - 1 - c.nonceSize // of the length of the message, in bytes
	if len(nonce) != c.nonceSize || len(data) > maxCCMData || field < 8 && uint64(n)>>(8*field) != 0 {
		panic("smbauth: CCM: wrong length of nonce, data or message")
	}
	s.first = [blockSize]byte{byte(field - 1)}
	copy(s.first[1:], nonce)
	clear(s.mac[:])
	binary.BigEndian.PutUint64(s.mac[blockSize-8:], uint64(n))
	copy(s.mac[:], s.first[:1+c.nonceSize])
	s.mac[0] |= byte((c.tagSize-2)/2) << 3
	if len(data) > 0 {
		s.mac[0] |= 0x40
	}
	c.block.Encrypt(s.mac[:], s.mac[:])
	if len(data) > 0 {
		s.mac[0] ^= byte(len(data) >> 8)
		s.mac[1] ^= byte(len(data))
		first := min(len(data), blockSize-2)
		subtle.XORBytes(s.mac[2:], s.mac[2:], data[:first])
		c.block.Encrypt(s.mac[:], s.mac[:])
		c.absorb(s, data[first:])
	}
	stream := cipher.NewCTR(c.block, s.first[:])
	clear(s.first[:])
	stream.XORKeyStream(s.first[:], s.first[:])
	return stream
}

// absorb adds bytes to the MAC, padded with zeros to whole blocks.
func (c *ccm) absorb(s *ccmState, p []byte) {
	for len(p) > 0 {
		n := subtle.XORBytes(s.mac[:], s.mac[:], p)
		c.block.Encrypt(s.mac[:], s.mac[:])
		p = p[n:]
	}
}

// Seal encrypts plaintext and appends it and the tag to dst. The memory of dst may be that of
// plaintext, from the same byte on.
func (c *ccm) Seal(dst, nonce, plaintext, data []byte) []byte {
	s := c.pool.Get().(*ccmState)
	defer c.pool.Put(s)
	stream := c.begin(s, nonce, data, len(plaintext))
	c.absorb(s, plaintext)
	dst, out := extend(dst, len(plaintext)+c.tagSize)
	stream.XORKeyStream(out, plaintext)
	subtle.XORBytes(out[len(plaintext):], s.first[:c.tagSize], s.mac[:])
	return dst
}

// Open decrypts a message with its tag and appends it to dst. The memory of dst may be that
// of ciphertext, from the same byte on. If the tag is wrong, the decrypted bytes are zeroed.
//
// Errors: errOpen.
func (c *ccm) Open(dst, nonce, ciphertext, data []byte) ([]byte, error) {
	n := len(ciphertext) - c.tagSize
	if n < 0 {
		return nil, errOpen
	}
	s := c.pool.Get().(*ccmState)
	defer c.pool.Put(s)
	stream := c.begin(s, nonce, data, n)
	dst, out := extend(dst, n)
	stream.XORKeyStream(out, ciphertext[:n])
	c.absorb(s, out)
	subtle.XORBytes(s.mac[:], s.mac[:], s.first[:])
	if subtle.ConstantTimeCompare(s.mac[:c.tagSize], ciphertext[n:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return dst, nil
}

// extend returns b with n more bytes, and these bytes. It allocates if b has no room.
func extend(b []byte, n int) (all, more []byte) {
	all = slices.Grow(b, n)[:len(b)+n]
	return all, all[len(b):]
}

package smbauth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"sync"
)

// cmacSigner signs with AES-128-CMAC, the algorithm of dialect 3.0 and up.
//
// Source: [RFC 4493], [MS-SMB2 3.1.4.1]
type cmacSigner struct {
	block  cipher.Block
	k1, k2 [16]byte
	pool   sync.Pool // of *[16]byte, because the arguments of a cipher.Block escape
}

func newCMACSigner(key [16]byte) *cmacSigner {
	s := &cmacSigner{block: newAES(key)}
	s.pool.New = func() any { return new([16]byte) }
	l := make([]byte, 16)
	s.block.Encrypt(l, l)
	s.k1 = double([16]byte(l))
	s.k2 = double(s.k1)
	return s
}

// newAES returns the cipher of a 16-byte key. NewCipher cannot fail for this length.
func newAES(key [16]byte) cipher.Block {
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic("smbauth: AES refuses a 16-byte key: " + err.Error())
	}
	return b
}

// double multiplies by x in GF(2^128), in constant time.
//
// Source: [RFC 4493 §2.3]
func double(in [16]byte) (out [16]byte) {
	carry := byte(0)
	for i := 15; i >= 0; i-- {
		out[i] = in[i]<<1 | carry
		carry = in[i] >> 7
	}
	out[15] ^= 0x87 & -carry
	return out
}

// mac returns the AES-CMAC of msg.
//
// Source: [RFC 4493 §2.4]
func (s *cmacSigner) mac(msg []byte) (sig [signatureSize]byte) {
	x := s.pool.Get().(*[16]byte)
	clear(x[:])
	for len(msg) > 16 {
		subtle.XORBytes(x[:], x[:], msg[:16])
		s.block.Encrypt(x[:], x[:])
		msg = msg[16:]
	}
	if len(msg) == 16 {
		subtle.XORBytes(x[:], x[:], s.k1[:])
	} else {
		subtle.XORBytes(x[:], x[:], s.k2[:])
		x[len(msg)] ^= 0x80
	}
	subtle.XORBytes(x[:], x[:], msg)
	s.block.Encrypt(x[:], x[:])
	sig = *x
	s.pool.Put(x)
	return sig
}

func (s *cmacSigner) Sign(msg []byte)        { sign(msg, s.mac) }
func (s *cmacSigner) Verify(msg []byte) bool { return verify(msg, s.mac) }

package smbauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"sync"
)

// SigningAlgorithm is a signing algorithm as the negotiate context numbers it.
//
// Source: [MS-SMB2 2.2.3.1.7]
type SigningAlgorithm uint16

// The signing algorithms of SMB.
const (
	HMACSHA256 SigningAlgorithm = 0
	AESCMAC    SigningAlgorithm = 1
	AESGMAC    SigningAlgorithm = 2
)

// String returns the name of the algorithm.
func (a SigningAlgorithm) String() string {
	switch a {
	case HMACSHA256:
		return "HMAC-SHA256"
	case AESCMAC:
		return "AES-128-CMAC"
	case AESGMAC:
		return "AES-128-GMAC"
	}
	return "unknown signing algorithm"
}

// DefaultSigning returns the algorithm of a dialect if none was negotiated.
//
// Source: [MS-SMB2 3.1.4.1]
func DefaultSigning(dialect uint16) SigningAlgorithm {
	if dialect >= Dialect300 {
		return AESCMAC
	}
	return HMACSHA256
}

// Offsets of the signature, and of the parts of a nonce, in an SMB2 header.
const (
	smbHeaderSize   = 64
	offsetCommand   = 12
	offsetFlags     = 16
	offsetMessageID = 24
	offsetSignature = 48
	signatureSize   = 16
)

// Signer signs and verifies SMB2 messages under one key. It is safe for
// concurrent use with different messages.
//
// A message is one element of a compound: the 64-byte header, the body, and in a compound
// the padding up to the next header, contiguous.
//
// Source: [MS-SMB2 3.1.4.1], [MS-SMB2 3.1.5.1]
type Signer interface {
	// Sign writes the signature into the header. The caller has set the SIGNED flag, which
	// the signature covers.
	Sign(msg []byte)
	// Verify reports, in constant time, whether the signature is valid. It writes to the
	// signature field and restores it. Messages shorter than a header are not valid.
	Verify(msg []byte) bool
}

// NewSigner returns a signer. An unknown algorithm means AESCMAC.
func NewSigner(alg SigningAlgorithm, key [16]byte) Signer {
	switch alg {
	case HMACSHA256:
		return newHMACSigner(key)
	case AESGMAC:
		return newGMACSigner(key)
	default:
		return newCMACSigner(key)
	}
}

// hmacSigner signs for dialects 2.0.2 and 2.1.
type hmacSigner struct {
	pool sync.Pool // of *hmacState
}

type hmacState struct {
	h   hash.Hash
	sum [sha256.Size]byte
}

func newHMACSigner(key [16]byte) *hmacSigner {
	s := &hmacSigner{}
	s.pool.New = func() any { return &hmacState{h: hmac.New(sha256.New, key[:])} }
	return s
}

func (s *hmacSigner) mac(msg []byte) (sig [signatureSize]byte) {
	st := s.pool.Get().(*hmacState)
	st.h.Reset()
	st.h.Write(msg)
	copy(sig[:], st.h.Sum(st.sum[:0]))
	s.pool.Put(st)
	return sig
}

func (s *hmacSigner) Sign(msg []byte)        { sign(msg, s.mac) }
func (s *hmacSigner) Verify(msg []byte) bool { return verify(msg, s.mac) }

// sign computes the signature over a zeroed field and writes it there.
func sign(msg []byte, mac func([]byte) [signatureSize]byte) {
	field := msg[offsetSignature : offsetSignature+signatureSize]
	clear(field)
	sig := mac(msg)
	copy(field, sig[:])
}

// verify compares the signature with the computed one.
func verify(msg []byte, mac func([]byte) [signatureSize]byte) bool {
	if len(msg) < smbHeaderSize {
		return false
	}
	field := msg[offsetSignature : offsetSignature+signatureSize]
	var got [signatureSize]byte
	copy(got[:], field)
	clear(field)
	want := mac(msg)
	copy(field, got[:])
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

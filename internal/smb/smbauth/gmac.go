package smbauth

import (
	"crypto/cipher"
	"encoding/binary"
	"sync"
)

// smbCancel is the command number of CANCEL. It has a bit in the nonce, because CANCEL
// repeats the MessageId of the request it cancels.
const smbCancel = 0x0C

// smbFromServer is the header flag of a response.
const smbFromServer = 0x1

// gmacSigner signs with AES-128-GMAC: GCM with the message as additional data
// and nothing to encrypt.
//
// Source: [MS-SMB2 3.1.4.1], [RFC 4543]
type gmacSigner struct {
	aead cipher.AEAD
	pool sync.Pool // of *gmacState, because the arguments of an AEAD escape
}

type gmacState struct {
	nonce [12]byte
	tag   [signatureSize]byte
}

func newGMACSigner(key [16]byte) *gmacSigner {
	aead, err := cipher.NewGCM(newAES(key))
	if err != nil {
		panic("smbauth: GCM refuses AES: " + err.Error())
	}
	s := &gmacSigner{aead: aead}
	s.pool.New = func() any { return new(gmacState) }
	return s
}

// gmacNonce returns the nonce of a message: the MessageId, then a word whose bit 0 is the
// sender's role (1 for the server) and whose bit 1 is set for CANCEL.
//
// Source: [MS-SMB2 3.1.4.1]
func gmacNonce(nonce *[12]byte, msg []byte) {
	copy(nonce[:8], msg[offsetMessageID:offsetMessageID+8])
	word := binary.LittleEndian.Uint32(msg[offsetFlags:]) & smbFromServer
	if binary.LittleEndian.Uint16(msg[offsetCommand:]) == smbCancel {
		word |= 2
	}
	binary.LittleEndian.PutUint32(nonce[8:], word)
}

func (s *gmacSigner) mac(msg []byte) (sig [signatureSize]byte) {
	st := s.pool.Get().(*gmacState)
	gmacNonce(&st.nonce, msg)
	s.aead.Seal(st.tag[:0], st.nonce[:], nil, msg)
	sig = st.tag
	s.pool.Put(st)
	return sig
}

func (s *gmacSigner) Sign(msg []byte)        { sign(msg, s.mac) }
func (s *gmacSigner) Verify(msg []byte) bool { return verify(msg, s.mac) }

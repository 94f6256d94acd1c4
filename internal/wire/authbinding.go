package wire

import (
	"crypto/sha256"
	"encoding/binary"
)

// ConnectionStart is the private data with which a server accepts a connection, in bytes:
//
//	0 Magic "LWIO"   4 RevId u16   6 Reserved u16, 0   8 Nonce 16 bytes
//
// A client that knows only the text ignores private data.
//
// Source: [OP-102], [OP-46c]
type ConnectionStart struct {
	// Nonce is random and new for each connection.
	Nonce [16]byte
}

// ConnectionStartSize is the size of an encoded ConnectionStart, in bytes. Some fabrics pad private
// data with zeros.
const ConnectionStartSize = 24

// AppendTo appends the encoded private data to b.
func (s *ConnectionStart) AppendTo(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, RevID)
	b = binary.LittleEndian.AppendUint16(b, 0)
	return append(b, s.Nonce[:]...)
}

// DecodeConnectionStart decodes the private data of an acceptance. ok is false for private data of
// another kind, or none: the server does not bind AUTH to the connection.
//
// Source: [OP-46c]
func DecodeConnectionStart(private []byte) (s ConnectionStart, ok bool) {
	if len(private) < ConnectionStartSize || string(private[:4]) != magic || binary.LittleEndian.Uint16(private[4:]) != RevID {
		return s, false
	}
	s.Nonce = [16]byte(private[8:ConnectionStartSize])
	return s, true
}

// bindingLabel begins the hashed bytes of a binding.
const bindingLabel = "LWIO BIND\x00"

// BindingSize is the size of option 0x82, in bytes.
const BindingSize = sha256.Size

// Binding returns the value of option 0x82, the name of one connection: the SHA-256 of a label, the
// encoded ConnectionStart, and the name of the fabric in ASCII. The MAC of option 0x80 covers the
// option, so an AUTH is valid on the connection that it was made for, and on no other.
//
// Source: [OP-46c]
func (s *ConnectionStart) Binding(fabric string) [BindingSize]byte {
	b := append(make([]byte, 0, len(bindingLabel)+ConnectionStartSize+len(fabric)), bindingLabel...)
	return sha256.Sum256(append(s.AppendTo(b), fabric...))
}

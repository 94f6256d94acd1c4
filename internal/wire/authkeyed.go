package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Role is the side that made a MAC, so that a MAC cannot be sent back to its sender.
//
// Source: [OP-46b]
type Role uint8

// The roles.
const (
	RoleClient Role = 'C'
	RoleServer Role = 'S'
)

// The parameters of DeriveAuthKey.
const (
	authKeyLabel = "LWIO AUTH"
	authKeySize  = 32
)

// DeriveAuthKey derives the key of option 0x80, of 32 bytes, from the application
// key of the SMB session and the keys that client and server sent in NEGOTIATE.
//
// It is the counter mode of SP800-108 with HMAC-SHA-256 and one block:
// HMAC(applicationKey, 00000001 | label | 00 | clientKey | serverKey | 00000100),
// counter and length (in bits) big-endian.
//
// Source: [OP-46b]
func DeriveAuthKey(applicationKey []byte, clientKey, serverKey [16]byte) []byte {
	m := hmac.New(sha256.New, applicationKey)
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], 1)
	m.Write(n[:])
	m.Write([]byte(authKeyLabel))
	m.Write([]byte{0})
	m.Write(clientKey[:])
	m.Write(serverKey[:])
	binary.BigEndian.PutUint32(n[:], 8*authKeySize)
	m.Write(n[:])
	return m.Sum(nil)
}

// SignKeyed fills in the MAC of option 0x80 of encoded parameters, whose nonce
// must be there. SignMD5 comes after it.
//
// The MAC is HMAC-SHA-256(key, role | header | params | peerNonce), where header is
// the 48 bytes of the client's AUTH message, params are the parameters without the
// 18 bytes of the signature option and without the 32 bytes of the MAC itself (code,
// length and nonce of option 0x80 stay), and peerNonce is the client's nonce for the
// server and nil for the client.
//
// Errors: *Error if params do not decode or have no option 0x80, or header has
// another size.
//
// Source: [OP-46b], [OP-42b]
func SignKeyed(params, key []byte, role Role, header, peerNonce []byte) error {
	mac, at, err := keyedMAC(params, key, role, header, peerNonce)
	if err != nil {
		return err
	}
	copy(params[at:], mac)
	return nil
}

// VerifyKeyed checks the MAC of option 0x80 of encoded parameters, in constant
// time; role is the sender's.
//
// Errors: *Error with ACCESS_DENIED, which ends the connection.
//
// Source: [OP-46b]
func VerifyKeyed(params, key []byte, role Role, header, peerNonce []byte) error {
	mac, at, err := keyedMAC(params, key, role, header, peerNonce)
	if err != nil {
		return err
	}
	if !hmac.Equal(mac, params[at:at+macSize]) {
		return deny(authParams, "the keyed signature is wrong")
	}
	return nil
}

// keyedMAC computes the MAC and says where in params it belongs.
func keyedMAC(params, key []byte, role Role, header, peerNonce []byte) (mac []byte, at int, err error) {
	if len(header) != HeaderSize {
		return nil, 0, deny(authParams, "a header of %d bytes", len(header))
	}
	keyed, err := findOption(params, optionKeyed)
	if err != nil {
		return nil, 0, err
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte{byte(role)})
	m.Write(header)
	m.Write(params[:authFixedSize])
	at = keyed + 2 + nonceSize
	for w := walkOptions(params); w.next(); {
		switch w.code {
		case optionSignature:
		case optionKeyed:
			m.Write(params[w.at:at])
		default:
			m.Write(params[w.at:w.then])
		}
	}
	m.Write(params[len(params)-1:])
	m.Write(peerNonce)
	return m.Sum(nil), at, nil
}

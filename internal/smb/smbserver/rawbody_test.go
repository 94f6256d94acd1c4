package smbserver

import (
	"unicode/utf16"

	"lwio/internal/smb/smbauth"
)

// negotiateBody offers dialects, the last with contexts if it is 3.1.1.
func negotiateBody(dialects ...uint16) []byte {
	b := make([]byte, 36)
	le.PutUint16(b, 36)
	le.PutUint16(b[2:], uint16(len(dialects)))
	le.PutUint16(b[4:], 1)
	le.PutUint32(b[8:], 4)
	b[12] = 7
	for _, d := range dialects {
		b = le.AppendUint16(b, d)
	}
	if dialects[len(dialects)-1] != 0x0311 {
		return b
	}
	for (64+len(b))%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint32(b[28:], uint32(64+len(b)))
	le.PutUint16(b[32:], 2)
	// Preauth integrity: SHA-512 with 4 bytes of salt.
	b = append(b, 1, 0, 10, 0, 0, 0, 0, 0, 1, 0, 4, 0, 1, 0, 1, 2, 3, 4)
	b = append(b, 0, 0, 0, 0, 0, 0)
	// Signing: GMAC, CMAC.
	return append(b, 8, 0, 6, 0, 0, 0, 0, 0, 2, 0, 2, 0, 1, 0)
}

// offerCiphers adds ciphers to a NEGOTIATE request: the capability, and in dialect 3.1.1 the
// context.
func offerCiphers(b []byte, dialect uint16, ciphers []smbauth.Cipher) []byte {
	if len(ciphers) == 0 {
		return b
	}
	b[8] |= 0x40
	if dialect != 0x0311 {
		return b
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	b[32]++
	b = append(b, 2, 0, byte(2+2*len(ciphers)), 0, 0, 0, 0, 0, byte(len(ciphers)), 0)
	for _, c := range ciphers {
		b = le.AppendUint16(b, uint16(c))
	}
	return b
}

// chosenCipher returns the cipher of a NEGOTIATE response.
func chosenCipher(dialect uint16, body []byte) smbauth.Cipher {
	switch {
	case dialect < 0x0311 && body[24]&0x40 != 0:
		return smbauth.AES128CCM
	case dialect < 0x0311:
		return smbauth.NoCipher
	}
	at := le.Uint32(body[60:]) - 64
	for range le.Uint16(body[6:]) {
		if body[at] == 2 {
			return smbauth.Cipher(le.Uint16(body[at+10:]))
		}
		at = (at + 8 + uint32(le.Uint16(body[at+2:])) + 7) &^ 7
	}
	return smbauth.NoCipher
}

// setupBody carries a token.
func setupBody(token []byte, previous uint64) []byte {
	b := make([]byte, 24)
	le.PutUint16(b, 25)
	b[3] = 1
	le.PutUint16(b[12:], 64+24)
	le.PutUint16(b[14:], uint16(len(token)))
	le.PutUint64(b[16:], previous)
	return append(b, token...)
}

func utf16le(s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = le.AppendUint16(b, u)
	}
	return b
}

// connectBody is a TREE_CONNECT of a share.
func connectBody(share string) []byte {
	p := utf16le(`\\host\` + share)
	b := le.AppendUint16(nil, 9)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 64+8)
	b = le.AppendUint16(b, uint16(len(p)))
	return append(b, p...)
}

// create has the fields of a CREATE.
type create struct {
	name        string
	access      uint32
	share       uint32
	disposition uint32
	options     uint32
	attributes  uint32
	oplock      byte
	contexts    []byte
}

func (o create) body() []byte {
	n := utf16le(o.name)
	b := make([]byte, 56)
	le.PutUint16(b, 57)
	b[3] = o.oplock
	le.PutUint32(b[4:], 2) // impersonation
	le.PutUint32(b[24:], o.access)
	le.PutUint32(b[28:], o.attributes)
	le.PutUint32(b[32:], o.share)
	le.PutUint32(b[36:], o.disposition)
	le.PutUint32(b[40:], o.options)
	le.PutUint16(b[44:], 64+56)
	le.PutUint16(b[46:], uint16(len(n)))
	b = append(b, n...)
	if len(o.contexts) > 0 {
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		le.PutUint32(b[48:], uint32(64+len(b)))
		le.PutUint32(b[52:], uint32(len(o.contexts)))
		b = append(b, o.contexts...)
	}
	if len(b) == 56 {
		b = append(b, 0)
	}
	return b
}

// rw opens or creates a file for reading, writing and deleting.
func rw(name string) create {
	return create{name: name, access: 0x001F01FF, share: 7, disposition: 3}
}

func closeBody(id [16]byte, flags uint16) []byte {
	b := le.AppendUint16(nil, 24)
	b = le.AppendUint16(b, flags)
	b = append(b, 0, 0, 0, 0)
	return append(b, id[:]...)
}

func readBody(id [16]byte, off uint64, n, minimum uint32) []byte {
	b := make([]byte, 49)
	le.PutUint16(b, 49)
	b[2] = 80
	le.PutUint32(b[4:], n)
	le.PutUint64(b[8:], off)
	copy(b[16:], id[:])
	le.PutUint32(b[32:], minimum)
	return b
}

func writeBody(id [16]byte, off uint64, data []byte) []byte {
	b := make([]byte, 48)
	le.PutUint16(b, 49)
	le.PutUint16(b[2:], 64+48)
	le.PutUint32(b[4:], uint32(len(data)))
	le.PutUint64(b[8:], off)
	copy(b[16:], id[:])
	return append(b, data...)
}

func findBody(id [16]byte, class, flags byte, pattern string, n uint32) []byte {
	p := utf16le(pattern)
	b := make([]byte, 32)
	le.PutUint16(b, 33)
	b[2], b[3] = class, flags
	copy(b[8:], id[:])
	le.PutUint16(b[24:], 64+32)
	le.PutUint16(b[26:], uint16(len(p)))
	le.PutUint32(b[28:], n)
	return append(b, p...)
}

func queryBody(id [16]byte, typ, class byte, extra, n uint32) []byte {
	b := make([]byte, 41)
	le.PutUint16(b, 41)
	b[2], b[3] = typ, class
	le.PutUint32(b[4:], n)
	le.PutUint32(b[16:], extra)
	copy(b[24:], id[:])
	return b
}

func setBody(id [16]byte, typ, class byte, data []byte) []byte {
	b := make([]byte, 32)
	le.PutUint16(b, 33)
	b[2], b[3] = typ, class
	le.PutUint32(b[4:], uint32(len(data)))
	le.PutUint16(b[8:], 64+32)
	copy(b[16:], id[:])
	return append(b, data...)
}

func ioctlBody(id [16]byte, code uint32, in []byte, maxOut uint32) []byte {
	b := make([]byte, 56)
	le.PutUint16(b, 57)
	le.PutUint32(b[4:], code)
	copy(b[8:], id[:])
	le.PutUint32(b[24:], 64+56)
	le.PutUint32(b[28:], uint32(len(in)))
	le.PutUint32(b[44:], maxOut)
	le.PutUint32(b[48:], 1)
	if len(in) == 0 {
		in = []byte{0}
	}
	return append(b, in...)
}

func renameInfo(to string, replace bool) []byte {
	n := utf16le(to)
	b := make([]byte, 20)
	if replace {
		b[0] = 1
	}
	le.PutUint32(b[16:], uint32(len(n)))
	return append(b, n...)
}

var noID = [16]byte{0: 0xFF, 1: 0xFF, 2: 0xFF, 3: 0xFF, 4: 0xFF, 5: 0xFF, 6: 0xFF, 7: 0xFF, 8: 0xFF, 9: 0xFF, 10: 0xFF, 11: 0xFF, 12: 0xFF, 13: 0xFF, 14: 0xFF, 15: 0xFF}

package smbserver

import (
	"errors"
	"fmt"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// Encryption says which SMB messages are encrypted. A share may require more than its server:
// see vfs.Share.
type Encryption int

// The choices of Encryption.
const (
	// EncryptionOffered leaves the choice to each client.
	EncryptionOffered Encryption = iota
	// EncryptionOff offers no encryption. No client can use a share that requires it.
	EncryptionOff
	// EncryptionRequired refuses every session that cannot be encrypted, and every request of
	// a session that is not.
	EncryptionRequired
)

// String returns the choice as the command spells it.
func (e Encryption) String() string {
	switch e {
	case EncryptionOffered:
		return "offered"
	case EncryptionOff:
		return "off"
	case EncryptionRequired:
		return "required"
	}
	return fmt.Sprintf("Encryption(%d)", int(e))
}

// maxEncryptedCompound bounds the responses that are encrypted as one message, in bytes. They
// are copied for that. A longer response is encrypted in its own memory, as a message of its
// own.
const maxEncryptedCompound = 64 << 10

// sessionCipher has the two directions of an encrypted session.
//
// Source: [MS-SMB2 3.3.1.8]
type sessionCipher struct {
	encrypt func(msg []byte, sessionID uint64) error // of an Encrypter
	in      *smbauth.Decrypter
}

// newSessionCipher returns the cipher of a session, nil with NoCipher.
func newSessionCipher(c smbauth.Cipher, keys *smbauth.SessionKeys) *sessionCipher {
	if c == smbauth.NoCipher {
		return nil
	}
	return &sessionCipher{
		encrypt: smbauth.NewEncrypter(c, keys.ServerToClient).Encrypt, in: smbauth.NewDecrypter(c, keys.ClientToServer),
	}
}

var (
	errNotEncrypted  = errors.New("no session of this connection has encrypted the message")
	errCannotEncrypt = fmt.Errorf("%w: the share requires encryption, and the client cannot encrypt", ntstatus.AccessDenied)
)

// decrypt decrypts a message in place. It returns the message, and the session whose key the
// client has used. A message that cannot be decrypted ends the connection.
//
// Source: [MS-SMB2 3.3.5.2.1.1]
func (c *conn) decrypt(msg []byte) (*Session, []byte, error) {
	h, err := smbwire.DecodeTransformHeader(msg)
	if err != nil {
		return nil, nil, err
	}
	s := c.sessions.get(h.SessionID)
	if s == nil || !s.valid() || s.cipher == nil {
		return nil, nil, errNotEncrypted
	}
	plain, err := s.cipher.in.Decrypt(msg)
	if err != nil {
		c.srv.stats.badSignatures.Add(1)
		return nil, nil, err
	}
	return s, plain, nil
}

// encrypt returns one message that consists of the given responses, encrypted for a session.
// A single response is encrypted in place; several are copied and freed.
//
// Source: [MS-SMB2 3.3.4.1.4]
func (c *conn) encrypt(s *Session, parts []*smbbuf.Buffer) (*smbbuf.Buffer, error) {
	out := parts[0]
	if len(parts) > 1 {
		n := headroom
		for _, p := range parts {
			n += len(p.B) - headroom
		}
		out = c.buffer(n+smbauth.TagSize, s.user)
		out.B = out.B[:headroom]
		for _, p := range parts {
			out.B = append(out.B, p.B[headroom:]...)
			p.Free()
		}
	}
	out.B = slices.Grow(out.B, smbauth.TagSize)
	if err := s.cipher.encrypt(out.B[smbwire.FrameHeaderSize:], s.id); err != nil {
		out.Free()
		return nil, err
	}
	return out, nil
}

// authentic checks that the session has sent a request, and that the request is encrypted if
// the session requires that. The response is protected in the same way as the request.
//
// Source: [MS-SMB2 3.3.5.2.4], [MS-SMB2 3.3.5.2.9]
func (r *request) authentic() ntstatus.Status {
	if r.encrypted != nil {
		return ntstatus.Success // parse has compared the sessions
	}
	r.resp.signer = r.session.signer
	switch {
	case !r.session.signed(&r.hdr, r.msg):
		return ntstatus.AccessDenied
	case r.conn.srv.cfg.Encryption == EncryptionRequired && r.hdr.Command != smbwire.CommandSessionSetup:
		return ntstatus.AccessDenied
	}
	return ntstatus.Success
}

// mayUse reports whether a request is encrypted as the share of a tree connect requires.
//
// Source: [MS-SMB2 3.3.5.2.11]
func (r *request) mayUse(t *tree) bool { return r.encrypted != nil || !t.requiresEncryption() }

// requiresEncryption reports whether every request that uses the tree connect must be
// encrypted.
func (t *tree) requiresEncryption() bool { return t.share != nil && t.share.RequireEncryption }

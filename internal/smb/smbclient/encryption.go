package smbclient

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// encryption is the encryption of a session. It is safe for concurrent use.
//
// Source: [MS-SMB2 3.2.1.3]
type encryption struct {
	cipher    smbauth.Cipher
	sessionID uint64
	out       func(msg []byte, sessionID uint64) error // encrypts, as an Encrypter does
	in        *smbauth.Decrypter
	// on is set when the configuration, the server or a share requires encryption. All later
	// requests of the session are encrypted, also those of other shares.
	on atomic.Bool
}

// newEncryption returns the encryption of a session, off; nil with NoCipher.
func newEncryption(c smbauth.Cipher, keys *smbauth.SessionKeys, sessionID uint64) *encryption {
	if c == smbauth.NoCipher {
		return nil
	}
	return &encryption{
		cipher: c, sessionID: sessionID,
		out: smbauth.NewEncrypter(c, keys.ClientToServer).Encrypt, in: smbauth.NewDecrypter(c, keys.ServerToClient),
	}
}

// require turns encryption on. It reports false if the connection has no encryption.
//
// Source: [MS-SMB2 3.2.5.3.1], [MS-SMB2 3.2.5.5]
func (c *conn) require() bool {
	e := c.encryption.Load()
	if e != nil {
		e.on.Store(true)
	}
	return e != nil
}

// encrypting returns the encryption of the next request, nil if the request is signed.
func (c *conn) encrypting() *encryption {
	if e := c.encryption.Load(); e != nil && e.on.Load() {
		return e
	}
	return nil
}

// headSize returns the number of bytes before the first SMB2 header of a frame.
func (e *encryption) headSize() int {
	if e == nil {
		return smbwire.FrameHeaderSize
	}
	return smbwire.FrameHeaderSize + smbwire.TransformHeaderSize
}

// encrypt encrypts the message of a frame in place, if e is not nil, and returns the frame,
// with a capacity of smbauth.TagSize bytes more.
//
// Source: [MS-SMB2 3.2.4.1.8]
func (e *encryption) encrypt(frame []byte) ([]byte, error) {
	if e == nil {
		return frame, nil
	}
	frame = slices.Grow(frame, smbauth.TagSize)
	return frame, e.out(frame[smbwire.FrameHeaderSize:], e.sessionID)
}

// anyEncrypted is the length of an encrypted message that is read in any case, in bytes. A
// longer one must not exceed the limit of all requests without a response.
const anyEncrypted = 64 << 10

// readEncrypted reads one encrypted message of n bytes, whose first bytes are in head, and
// delivers its responses.
//
// Source: [MS-SMB2 3.2.5.1.1]
func (c *conn) readEncrypted(r *bufio.Reader, head []byte, n int) error {
	e := c.encryption.Load()
	if e == nil {
		return fmt.Errorf("%w: %w", ErrProtocol, smbwire.ErrEncrypted)
	}
	h, err := smbwire.DecodeTransformHeader(head)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	const least = smbwire.TransformHeaderSize + smbwire.HeaderSize
	switch {
	case h.SessionID != e.sessionID:
		return fmt.Errorf("%w: an encrypted message of session %#x", ErrProtocol, h.SessionID)
	case n < least, n > anyEncrypted && n > c.requests.longest()+smbwire.TransformHeaderSize:
		return fmt.Errorf("%w: an encrypted message of %d bytes", ErrProtocol, n)
	}
	buf, err := c.readFrame(r, n)
	if err != nil {
		return err
	}
	msg, err := e.in.Decrypt(buf.B)
	if err == nil {
		err = c.deliverEncrypted(msg, buf)
	} else {
		buf.Free()
	}
	return err
}

// deliverEncrypted delivers the responses of a decrypted message.
func (c *conn) deliverEncrypted(msg []byte, buf *smbbuf.Buffer) error {
	h, err := smbwire.DecodeHeader(msg)
	if err != nil {
		buf.Free()
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := c.checkLimit(&h, len(msg)); err != nil {
		buf.Free()
		return err
	}
	return c.deliverMessage(h, msg, buf, true)
}

// readFrame reads the rest of a frame: its header, and n bytes of a message. The buffer has a
// capacity of smbauth.TagSize bytes more, to decrypt the message in place.
func (c *conn) readFrame(r *bufio.Reader, n int) (*smbbuf.Buffer, error) {
	if _, err := r.Discard(smbwire.FrameHeaderSize); err != nil {
		return nil, err
	}
	buf := c.bufs.Get(n + smbauth.TagSize)
	buf.B = buf.B[:n]
	if _, err := io.ReadFull(r, buf.B); err != nil {
		buf.Free()
		return nil, err
	}
	return buf, nil
}

package smbclient

import (
	"errors"
	"fmt"

	"lwio/internal/smb/smbwire"
)

// errDrained is the end of a connection whose server has announced it: the server has answered every
// request that it has begun.
var errDrained = errors.New("the server is being stopped or restarted")

// notified handles a message that answers no request. This side asks for no oplocks. The announcement
// that the server ends the session is an error if it is authentic.
//
// Source: [MS-SMB2 2.2.44], [OP-56]
func (c *conn) notified(r *response) error {
	a := c.trusted.Load()
	if a == nil || r.Command != smbwire.CommandNotification || r.SessionID != a.sessionID {
		return nil
	}
	n, err := smbwire.DecodeNotification(r.body())
	if err != nil || n.Type != smbwire.NotifySessionClosed || n.Mark != smbwire.DrainedMark {
		return nil // of another server; the end of the connection follows
	}
	switch {
	case r.encrypted:
		return errDrained
	case c.encrypting() != nil:
		return fmt.Errorf("%w: a notification is not encrypted: %w", ErrProtocol, ErrEncryption)
	case r.Flags&smbwire.FlagSigned == 0 || !a.signer.Verify(r.msg):
		return fmt.Errorf("a notification: %w", ErrSignature)
	}
	return errDrained
}

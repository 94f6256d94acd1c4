package smbserver

import (
	"errors"
	"fmt"

	"lwio/internal/smb/smbwire"
)

var errSMB1 = errors.New("the client speaks SMB 1 only")

// smb1Negotiate answers an SMB 1 negotiation: with SMB 2 if the client offers
// that, and otherwise with SMB 1's own way to say that no dialect is spoken;
// the connection then ends. The caller holds the turn.
//
// Source: [OP-5c], [LWIO claim 5], [MS-SMB2 3.3.5.3]
func (c *conn) smb1Negotiate(msg []byte) error {
	if c.dialect != 0 {
		return fmt.Errorf("%w: SMB 1 after SMB 2", errProtocol)
	}
	n, err := smbwire.DecodeSMB1Negotiate(msg)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	dialect := smbwire.DialectWildcard
	switch {
	case n.SMB2Wildcard:
	case n.SMB2002:
		dialect = smbwire.Dialect202
	default:
		out := c.srv.bufs.get(headroom)
		out.b = n.AppendRefusal(out.b)
		c.write(out)
		return fmt.Errorf("%w: %w", errProtocol, errSMB1)
	}
	if !c.credits.take(0, 1) {
		return fmt.Errorf("%w: message id 0 is used up", errProtocol)
	}
	c.agree(dialect)
	c.clientDialects = []uint16{dialect}
	h := smbwire.Header{
		Command: smbwire.CommandNegotiate, Flags: smbwire.FlagResponse,
		Credits: c.credits.grant(1, 1),
	}
	out := c.srv.bufs.get(bodyOffset)
	h.Put(out.b[headroom:])
	resp := c.negotiateResponse(dialect)
	out.b = resp.AppendTo(out.b)
	c.write(out)
	return nil
}

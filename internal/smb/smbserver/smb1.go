package smbserver

import (
	"errors"
	"fmt"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

var errSMB1 = errors.New("the client speaks SMB 1 only")

// negotiateSMB1 answers an SMB 1 negotiation with SMB 2 if the client offers it. Otherwise
// it refuses all dialects, and the connection ends. Precondition: the read turn is held.
//
// Source: [OP-5c], [LWIO claim 5], [MS-SMB2 3.3.5.3]
func (c *conn) negotiateSMB1(msg []byte) error {
	if c.agreed.dialect != 0 {
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
		out := c.buffer(headroom, "")
		out.B = n.AppendRefusal(out.B)
		c.write(nil, out)
		return fmt.Errorf("%w: %w", errProtocol, errSMB1)
	}
	if !c.credits.take(0, 1) {
		return fmt.Errorf("%w: message id 0 is used up", errProtocol)
	}
	c.agreed = newAgreement(&c.srv.cfg, dialect, algorithms{signing: smbauth.DefaultSigning(dialect)})
	c.agreed.client.Dialects = []uint16{dialect}
	h := smbwire.Header{
		Command: smbwire.CommandNegotiate, Flags: smbwire.FlagResponse,
		Credits: c.credits.grant(1, 1),
	}
	out := c.buffer(bodyOffset, "")
	h.Put(out.B[headroom:])
	resp := c.agreed.response(c.srv)
	out.B = resp.AppendTo(out.B)
	c.write(nil, out)
	return nil
}

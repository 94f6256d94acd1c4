package smbclient

import (
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// agreement is the result of negotiation and logon for the messages of a connection.
type agreement struct {
	dialect   uint16
	largeMTU  bool // requests may cost several credits
	mustSign  bool
	sessionID uint64
	signer    smbauth.Signer // nil before the logon is complete
}

// charge returns the number of credits that a payload costs.
//
// Source: [MS-SMB2 3.1.5.2]
func (a *agreement) charge(payload int) int {
	if !a.largeMTU {
		return 1
	}
	return max(1, (payload+smbwire.CreditUnit-1)/smbwire.CreditUnit)
}

// signed reports whether requests and responses of a command are signed. Commands that
// protect the negotiation are always signed.
//
// Source: [MS-SMB2 3.2.4.1.1], [MS-SMB2 3.2.5.5]
func (a *agreement) signed(command smbwire.Command) bool {
	return a.signer != nil && (a.mustSign || command == smbwire.CommandTreeConnect || command == smbwire.CommandIoctl)
}

// seal writes the header and the signature of msg.
func (a *agreement) seal(h *smbwire.Header, msg []byte) {
	if a.signed(h.Command) {
		h.Flags |= smbwire.FlagSigned
	}
	h.Put(msg)
	if h.Flags&smbwire.FlagSigned != 0 {
		a.signer.Sign(msg)
	}
}

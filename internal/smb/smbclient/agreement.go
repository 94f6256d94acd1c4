package smbclient

import (
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// agreement is the result of negotiation and logon for the messages of a connection.
type agreement struct {
	dialect   uint16
	largeMTU  bool // requests may cost several credits
	sessionID uint64
	cipher    smbauth.Cipher // NoCipher if there is none
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

// finish writes the header of msg, and after the logon its signature. A message that will be
// encrypted has no signature.
//
// Source: [MS-SMB2 3.2.4.1.1], [MS-SMB2 3.2.5.5]
func (a *agreement) finish(h *smbwire.Header, msg []byte, encrypted bool) (signature [16]byte) {
	if a.signer == nil || encrypted {
		h.Put(msg)
		return signature
	}
	h.Flags |= smbwire.FlagSigned
	h.Put(msg)
	a.signer.Sign(msg)
	return smbwire.Signature(msg)
}

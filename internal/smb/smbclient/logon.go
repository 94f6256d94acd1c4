package smbclient

import (
	"context"
	"fmt"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// maxSteps bounds the tokens of a logon; NTLM and Kerberos have at most two.
const maxSteps = 4

// logon authenticates and derives the keys.
//
// Source: [MS-SMB2 3.2.4.2.3], [MS-SMB2 3.2.5.3]
func (c *conn) logon(ctx context.Context, host string, cfg *Config, n *negotiation) (smbauth.SessionKeys, error) {
	initiator, err := cfg.initiator(ctx, host)
	if err != nil {
		return smbauth.SessionKeys{}, err
	}
	preauth := n.preauth
	c.sent = preauth.Update
	defer func() { c.sent = nil }()
	token := n.hint
	for range maxSteps {
		out, done, err := initiator.Step(token)
		if err == nil && done {
			err = fmt.Errorf("%w: the logon does not end", ErrProtocol)
		}
		if err != nil {
			return smbauth.SessionKeys{}, err
		}
		r, err := c.call(ctx, request{command: smbwire.CommandSessionSetup, body: &smbwire.SessionSetupRequest{
			SecurityMode: uint8(n.request.SecurityMode), SecurityBuffer: out,
		}}, ntstatus.MoreProcessingRequired)
		if err != nil {
			return smbauth.SessionKeys{}, err
		}
		resp, err := smbwire.DecodeSessionSetupResponse(r.body())
		if err != nil {
			c.free(r)
			return smbauth.SessionKeys{}, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		token = slices.Clone(resp.SecurityBuffer)
		if c.agreed.sessionID != 0 && c.agreed.sessionID != r.SessionID {
			c.free(r)
			return smbauth.SessionKeys{}, fmt.Errorf("%w: the session changed its id", ErrProtocol)
		}
		c.agreed.sessionID = r.SessionID
		if r.Status == ntstatus.Success {
			defer c.free(r)
			keys, err := c.established(initiator, token, resp.SessionFlags, n.signing, preauth, r)
			if err == nil && (cfg.RequireEncryption || resp.SessionFlags&smbwire.SessionEncryptData != 0) {
				c.require()
			}
			return keys, err
		}
		preauth.Update(r.msg)
		c.free(r)
	}
	return smbauth.SessionKeys{}, fmt.Errorf("%w: the logon does not end", ErrProtocol)
}

// initiator returns the client's side of an authentication.
func (c *Config) initiator(ctx context.Context, host string) (*smbauth.Initiator, error) {
	ic := smbauth.InitiatorConfig{
		User: c.User, Password: c.Password, NTHash: c.NTHash, Domain: c.Domain,
		Workstation: c.Workstation, TargetSPN: "cifs/" + host,
	}
	if c.Kerberos != nil {
		var err error
		ic.Kerberos, err = c.Kerberos.Begin(ctx, smbauth.KerberosCredentials{User: c.User, Realm: c.Domain, Password: c.Password, Host: host})
		if err != nil {
			return nil, err
		}
	}
	return smbauth.NewInitiator(ic), nil
}

// established checks the last response of a logon: the proof of the server in its token, and
// the first signature under the new keys.
//
// Source: [MS-SMB2 3.2.5.3.1], [MS-SMB2 3.2.5.3.3]
func (c *conn) established(i *smbauth.Initiator, token []byte, flags uint16, alg smbauth.SigningAlgorithm,
	preauth smbauth.PreauthHash, r *response,
) (smbauth.SessionKeys, error) {
	switch {
	case flags&(smbwire.SessionIsGuest|smbwire.SessionIsNull) != 0:
		return smbauth.SessionKeys{}, ErrGuest
	case flags&smbwire.SessionEncryptData != 0 && c.agreed.cipher == smbauth.NoCipher:
		return smbauth.SessionKeys{}, ErrEncryption
	}
	_, done, err := i.Step(token)
	switch {
	case err != nil:
		return smbauth.SessionKeys{}, err
	case !done:
		return smbauth.SessionKeys{}, fmt.Errorf("%w: the logon ends too early", ErrProtocol)
	}
	keys := smbauth.DeriveKeys(c.agreed.dialect, c.agreed.cipher, i.SessionKey(), preauth)
	signer := smbauth.NewSigner(alg, keys.Signing)
	if r.Flags&smbwire.FlagSigned == 0 || !signer.Verify(r.msg) {
		return smbauth.SessionKeys{}, fmt.Errorf("the response to %v: %w", r.Command, ErrSignature)
	}
	c.agreed.signer = signer
	c.encryption.Store(newEncryption(c.agreed.cipher, &keys, c.agreed.sessionID))
	return keys, nil
}

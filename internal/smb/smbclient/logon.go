package smbclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// maxSteps bounds the tokens of a logon; NTLM and Kerberos have at most two.
const maxSteps = 4

// logon authenticates, derives the keys, and returns the end of the authentication, zero for none.
//
// Source: [MS-SMB2 3.2.4.2.3], [MS-SMB2 3.2.5.3]
func (c *conn) logon(ctx context.Context, host string, cfg *Config, n *negotiation) (smbauth.SessionKeys, time.Time, error) {
	preauth := n.preauth
	c.sent = preauth.Update
	defer func() { c.sent = nil }()
	i, err := cfg.initiator(ctx, host)
	if err != nil {
		return smbauth.SessionKeys{}, time.Time{}, err
	}
	r, err := c.authenticate(ctx, i, n, cfg.PreviousSession, preauth.Update)
	if err != nil {
		return smbauth.SessionKeys{}, time.Time{}, err
	}
	defer c.free(r.response)
	keys := smbauth.DeriveKeys(c.agreed.dialect, c.agreed.cipher, i.SessionKey(), preauth)
	signer := smbauth.NewSigner(n.signing, keys.Signing)
	if r.Flags&smbwire.FlagSigned == 0 || !signer.Verify(r.msg) {
		return smbauth.SessionKeys{}, time.Time{}, fmt.Errorf("the response to %v: %w", r.Command, ErrSignature)
	}
	c.agreed.signer = signer
	trusted := c.agreed
	c.trusted.Store(&trusted)
	c.encryption.Store(newEncryption(c.agreed.cipher, &keys, c.agreed.sessionID))
	if cfg.RequireEncryption || r.flags&smbwire.SessionEncryptData != 0 {
		c.require()
	}
	return keys, i.Expires(), nil
}

// finalSetup is the last response of an authentication, with its flags.
type finalSetup struct {
	*response
	flags uint16
}

// authenticate exchanges the tokens of one authentication, up to the check of the proof of the server. It
// returns the last response, which the caller frees. previous is the id of the session that this one
// replaces, or 0. received sees each response before the last one.
//
// Source: [MS-SMB2 3.2.4.2.3], [MS-SMB2 3.2.5.3]
func (c *conn) authenticate(
	ctx context.Context, i *smbauth.Initiator, n *negotiation, previous uint64, received func(msg []byte),
) (finalSetup, error) {
	token := n.hint
	for range maxSteps {
		out, done, err := i.Step(token)
		if err == nil && done {
			err = fmt.Errorf("%w: the logon does not end", ErrProtocol)
		}
		if err != nil {
			return finalSetup{}, err
		}
		r, err := c.exchange(ctx, request{command: smbwire.CommandSessionSetup, body: &smbwire.SessionSetupRequest{
			SecurityMode: uint8(n.request.SecurityMode), PreviousSessionID: previous, SecurityBuffer: out,
		}}, ntstatus.MoreProcessingRequired)
		if err != nil {
			return finalSetup{}, err
		}
		resp, err := c.takeSetup(r)
		if err == nil && r.Status == ntstatus.Success {
			err = c.finish(i, &resp)
		}
		if err != nil {
			c.free(r)
			return finalSetup{}, err
		}
		if r.Status == ntstatus.Success {
			return finalSetup{r, resp.SessionFlags}, nil
		}
		token = slices.Clone(resp.SecurityBuffer)
		received(r.msg)
		c.free(r)
	}
	return finalSetup{}, fmt.Errorf("%w: the logon does not end", ErrProtocol)
}

// takeSetup decodes a response to SESSION_SETUP. The first one has the id of the session, which does not
// change.
func (c *conn) takeSetup(r *response) (smbwire.SessionSetupResponse, error) {
	resp, err := smbwire.DecodeSessionSetupResponse(r.body())
	switch {
	case err != nil:
		return resp, fmt.Errorf("%w: %w", ErrProtocol, err)
	case c.agreed.sessionID == 0:
		c.agreed.sessionID = r.SessionID
	case c.agreed.sessionID != r.SessionID:
		return resp, fmt.Errorf("%w: the session changed its id", ErrProtocol)
	}
	return resp, nil
}

// finish checks the content of the last response of an authentication, with the proof of the server.
//
// Source: [MS-SMB2 3.2.5.3.1], [MS-SMB2 3.2.5.3.3]
func (c *conn) finish(i *smbauth.Initiator, resp *smbwire.SessionSetupResponse) error {
	switch {
	case resp.SessionFlags&(smbwire.SessionIsGuest|smbwire.SessionIsNull) != 0:
		return ErrGuest
	case resp.SessionFlags&smbwire.SessionEncryptData != 0 && c.agreed.cipher == smbauth.NoCipher:
		return ErrEncryption
	}
	_, done, err := i.Step(slices.Clone(resp.SecurityBuffer))
	if err == nil && !done {
		err = fmt.Errorf("%w: the logon ends too early", ErrProtocol)
	}
	return err
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

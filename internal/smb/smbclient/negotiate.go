package smbclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

const (
	// maxIO bounds a read or write request, in bytes.
	maxIO = 8 << 20
	// minIO is the least limit of a read or write that a server may have, in bytes.
	minIO = 4 << 10
)

// negotiation is the exchange before authentication.
//
// Source: [MS-SMB2 3.2.1.2]
type negotiation struct {
	request  smbwire.NegotiateRequest
	response smbwire.NegotiateResponse
	hint     []byte // the server's SPNEGO token
	signing  smbauth.SigningAlgorithm
	preauth  smbauth.PreauthHash

	maxRead, maxWrite, maxTransact int
}

// negotiate agrees on the dialect and the algorithms.
//
// Source: [MS-SMB2 3.2.4.2.2.2], [MS-SMB2 3.2.5.2]
func (c *conn) negotiate(ctx context.Context, host string, cfg *Config) (*negotiation, error) {
	n := &negotiation{}
	if err := n.offer(host, cfg); err != nil {
		return nil, err
	}
	c.sent = n.preauth.Update
	r, err := c.exchange(ctx, request{command: smbwire.CommandNegotiate, body: &n.request})
	if err != nil {
		return nil, err
	}
	defer c.free(r)
	resp, err := smbwire.DecodeNegotiateResponse(r.body())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	n.preauth.Update(r.msg)
	n.response, n.hint = resp, slices.Clone(resp.SecurityBuffer)
	n.response.SecurityBuffer, n.response.Contexts = nil, nil
	if !slices.Contains(cfg.Dialects, resp.Dialect) {
		return nil, fmt.Errorf("%w: the server chose %#04x", ErrDialect, resp.Dialect)
	}
	if n.signing, c.agreed.cipher, err = n.algorithms(resp.Contexts, cfg.Ciphers); err != nil {
		return nil, err
	}
	if cfg.RequireEncryption && c.agreed.cipher == smbauth.NoCipher {
		return nil, ErrEncryption
	}
	c.agreed.dialect = resp.Dialect
	c.agreed.largeMTU = resp.Capabilities&smbwire.CapLargeMTU != 0
	if min(resp.MaxReadSize, resp.MaxWriteSize, resp.MaxTransactSize) < minIO {
		return nil, fmt.Errorf("%w: the server takes less than %d bytes", ErrProtocol, minIO)
	}
	limit := maxIO
	if !c.agreed.largeMTU {
		limit = smbwire.CreditUnit
	}
	n.maxRead = min(int(min(resp.MaxReadSize, maxIO)), limit)
	n.maxWrite = min(int(min(resp.MaxWriteSize, maxIO)), limit)
	n.maxTransact = min(int(min(resp.MaxTransactSize, maxIO)), limit)
	return n, nil
}

// offer makes the NEGOTIATE request.
func (n *negotiation) offer(host string, cfg *Config) error {
	if len(cfg.Dialects) == 0 {
		return fmt.Errorf("%w: none was configured", ErrDialect)
	}
	n.request = smbwire.NegotiateRequest{
		SecurityMode: smbwire.SigningEnabled | smbwire.SigningRequired, Dialects: cfg.Dialects,
		Capabilities: smbwire.CapLargeMTU | smbwire.CapEncryption, // Samba ignores the ciphers of 3.1.1 without the latter
	}
	n.request.ClientGUID = cfg.ClientGUID
	if cfg.Dialects[len(cfg.Dialects)-1] >= smbwire.Dialect300 {
		n.request.Capabilities |= smbwire.CapPersistentHandles
	}
	if !slices.Contains(cfg.Dialects, smbwire.Dialect311) {
		return nil
	}
	n.request.Capabilities |= smbwire.CapNotifications
	name, err := smbwire.UTF16(host)
	if err != nil {
		return err
	}
	preauth := smbwire.PreauthIntegrity{Hashes: []uint16{smbwire.HashSHA512}, Salt: make([]byte, 32)}
	rand.Read(preauth.Salt)
	ciphers := make([]uint16, len(cfg.Ciphers))
	for i, x := range cfg.Ciphers {
		ciphers[i] = uint16(x)
	}
	n.request.Contexts = []smbwire.NegotiateContext{
		{Type: smbwire.ContextPreauthIntegrity, Data: preauth.AppendTo(nil)},
		{Type: smbwire.ContextEncryption, Data: smbwire.AppendAlgorithms(nil, ciphers...)},
		{Type: smbwire.ContextSigning, Data: smbwire.AppendAlgorithms(nil, offeredSigning...)},
		{Type: smbwire.ContextNetname, Data: name},
	}
	return nil
}

// offeredSigning are the signing algorithms, the fastest first.
var offeredSigning = []uint16{smbwire.SigningAESGMAC, smbwire.SigningAESCMAC, smbwire.SigningHMACSHA256}

// algorithms checks the server's contexts and returns the signing algorithm and the cipher.
// offered are the ciphers of the request. Dialects below 3.1.1 have no contexts.
//
// Source: [MS-SMB2 3.2.5.2]
func (n *negotiation) algorithms(contexts []smbwire.NegotiateContext, offered []smbauth.Cipher) (smbauth.SigningAlgorithm, smbauth.Cipher, error) {
	alg, cipher := smbauth.DefaultSigning(n.response.Dialect), smbauth.NoCipher
	if n.response.Dialect != smbwire.Dialect311 {
		only := smbauth.DefaultCipher(n.response.Dialect)
		if n.response.Capabilities&smbwire.CapEncryption != 0 && slices.Contains(offered, only) {
			cipher = only
		}
		return alg, cipher, nil
	}
	seen := make(map[smbwire.ContextType]int)
	for _, x := range contexts {
		seen[x.Type]++
		var ok bool
		switch x.Type {
		case smbwire.ContextPreauthIntegrity:
			p, err := smbwire.DecodePreauthIntegrity(x.Data)
			ok = err == nil && len(p.Hashes) == 1 && p.Hashes[0] == smbwire.HashSHA512
		case smbwire.ContextEncryption:
			var id uint16
			id, ok = chosen(x.Data)
			cipher = smbauth.Cipher(id)
			ok = ok && (cipher == smbauth.NoCipher || slices.Contains(offered, cipher))
		case smbwire.ContextSigning:
			var id uint16
			id, ok = chosen(x.Data)
			alg = smbauth.SigningAlgorithm(id)
			ok = ok && slices.Contains(offeredSigning, id)
		default:
			continue // nothing else was offered
		}
		if !ok || seen[x.Type] > 1 {
			return 0, 0, fmt.Errorf("%w: negotiate context %d: %x", ErrProtocol, x.Type, x.Data)
		}
	}
	if seen[smbwire.ContextPreauthIntegrity] != 1 {
		return 0, 0, fmt.Errorf("%w: no preauthentication hash", ErrProtocol)
	}
	return alg, cipher, nil
}

// chosen returns the only algorithm of a list. It reports false for any other list.
func chosen(data []byte) (uint16, bool) {
	list, err := smbwire.DecodeAlgorithms(data)
	if err != nil || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

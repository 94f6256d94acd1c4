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
	r, err := c.call(ctx, request{command: smbwire.CommandNegotiate, body: &n.request})
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
	if n.signing, err = n.algorithms(resp.Contexts); err != nil {
		return nil, err
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
		SecurityMode: smbwire.SigningEnabled | smbwire.SigningRequired, Capabilities: smbwire.CapLargeMTU, Dialects: cfg.Dialects,
	}
	rand.Read(n.request.ClientGUID[:])
	if !slices.Contains(cfg.Dialects, smbwire.Dialect311) {
		return nil
	}
	name, err := smbwire.UTF16(host)
	if err != nil {
		return err
	}
	preauth := smbwire.PreauthIntegrity{Hashes: []uint16{smbwire.HashSHA512}, Salt: make([]byte, 32)}
	rand.Read(preauth.Salt)
	n.request.Contexts = []smbwire.NegotiateContext{
		{Type: smbwire.ContextPreauthIntegrity, Data: preauth.AppendTo(nil)},
		{Type: smbwire.ContextSigning, Data: smbwire.AppendAlgorithms(nil, offeredSigning...)},
		{Type: smbwire.ContextNetname, Data: name},
	}
	return nil
}

// offeredSigning are the signing algorithms, the fastest first.
var offeredSigning = []uint16{smbwire.SigningAESGMAC, smbwire.SigningAESCMAC, smbwire.SigningHMACSHA256}

// algorithms checks the server's contexts and returns the signing algorithm.
//
// Source: [MS-SMB2 3.2.5.2]
func (n *negotiation) algorithms(contexts []smbwire.NegotiateContext) (smbauth.SigningAlgorithm, error) {
	alg := smbauth.DefaultSigning(n.response.Dialect)
	if n.response.Dialect != smbwire.Dialect311 {
		return alg, nil
	}
	hashes := 0
	for _, x := range contexts {
		switch x.Type {
		case smbwire.ContextPreauthIntegrity:
			p, err := smbwire.DecodePreauthIntegrity(x.Data)
			if err != nil || len(p.Hashes) != 1 || p.Hashes[0] != smbwire.HashSHA512 {
				return 0, fmt.Errorf("%w: preauthentication hash %v", ErrProtocol, p.Hashes)
			}
			hashes++
		case smbwire.ContextSigning:
			list, err := smbwire.DecodeAlgorithms(x.Data)
			if err != nil || len(list) != 1 || !slices.Contains(offeredSigning, list[0]) {
				return 0, fmt.Errorf("%w: signing algorithm %v", ErrProtocol, list)
			}
			alg = smbauth.SigningAlgorithm(list[0])
		default: // nothing else was offered
		}
	}
	if hashes != 1 {
		return 0, fmt.Errorf("%w: %d preauthentication hashes", ErrProtocol, hashes)
	}
	return alg, nil
}

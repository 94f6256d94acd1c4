package smbserver

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// saltSize is the length of the server's salt in the pre-authentication
// context, in bytes.
const saltSize = 32

// securityMode requires signatures of every message of a session.
const securityMode = smbwire.SigningEnabled | smbwire.SigningRequired

// agreement is the result of the negotiation of a connection. It does not change after
// dialect is neither zero nor the wildcard.
//
// Source: [MS-SMB2 3.3.1.7]
type agreement struct {
	dialect     uint16 // 0 before negotiation
	client      smbwire.ValidateNegotiateRequest
	caps        uint32
	maxTransfer uint32 // of a read, write or transaction, in bytes
	multiCredit bool
	signing     smbauth.SigningAlgorithm
}

// newAgreement returns the values that follow from a dialect.
func newAgreement(cfg *Config, dialect uint16, signing smbauth.SigningAlgorithm) agreement {
	a := agreement{
		dialect: dialect, signing: signing, maxTransfer: minTransferSize,
	}
	if dialect != smbwire.Dialect202 {
		a.maxTransfer, a.multiCredit, a.caps = uint32(cfg.MaxTransferSize), true, smbwire.CapLargeMTU
	}
	return a
}

// ready reports whether commands other than NEGOTIATE may follow.
func (a *agreement) ready() bool { return a.dialect != 0 && a.dialect != smbwire.DialectWildcard }

// response returns the response to NEGOTIATE, without contexts.
func (a *agreement) response(srv *Server) smbwire.NegotiateResponse {
	return smbwire.NegotiateResponse{
		SecurityMode: securityMode, Dialect: a.dialect, ServerGUID: srv.cfg.GUID, Capabilities: a.caps,
		MaxTransactSize: a.maxTransfer, MaxReadSize: a.maxTransfer, MaxWriteSize: a.maxTransfer,
		SystemTime: smbwire.FiletimeOf(time.Now()), ServerStartTime: smbwire.FiletimeOf(srv.start),
		SecurityBuffer: smbauth.ServerHint(),
	}
}

// confirms reports whether the values that a client repeats in a signed message equal the
// values of its NEGOTIATE. A difference shows that the negotiation was tampered with.
//
// Source: [MS-SMB2 3.3.5.15.12]
func (a *agreement) confirms(v *smbwire.ValidateNegotiateRequest) bool {
	return a.dialect != smbwire.Dialect311 && slices.Equal(v.Dialects, a.client.Dialects) && v.GUID == a.client.GUID &&
		v.SecurityMode == a.client.SecurityMode && v.Capabilities == a.client.Capabilities
}

// serverDialects are the dialects that the server speaks, the best first.
var serverDialects = [...]uint16{
	smbwire.Dialect311, smbwire.Dialect302, smbwire.Dialect300, smbwire.Dialect210, smbwire.Dialect202,
}

// dialectName returns the usual spelling of a dialect, such as 3.1.1.
func dialectName(d uint16) string {
	if d&0xF == 0 {
		return fmt.Sprintf("%d.%d", d>>8, d>>4&0xF)
	}
	return fmt.Sprintf("%d.%d.%d", d>>8, d>>4&0xF, d&0xF)
}

// chooseDialect returns the best dialect that both sides speak, or 0.
//
// Source: [MS-SMB2 3.3.5.4]
func chooseDialect(client []uint16) uint16 {
	for _, d := range serverDialects {
		if slices.Contains(client, d) {
			return d
		}
	}
	return 0
}

// handleNegotiate serves NEGOTIATE.
//
// Source: [MS-SMB2 3.3.5.4]
func handleNegotiate(r *request) ntstatus.Status {
	c := r.conn
	if c.agreed.ready() {
		return r.drop(fmt.Errorf("%w: second negotiation", errProtocol))
	}
	q, err := smbwire.DecodeNegotiateRequest(r.body())
	if err != nil {
		return statusOf(err)
	}
	dialect := chooseDialect(q.Dialects)
	switch {
	case len(q.Dialects) == 0:
		return ntstatus.InvalidParameter
	case dialect == 0:
		return ntstatus.NotSupported
	}
	signing := smbauth.DefaultSigning(dialect)
	var contexts []smbwire.NegotiateContext
	if dialect == smbwire.Dialect311 {
		var st ntstatus.Status
		if contexts, signing, st = chooseContexts(q.Contexts); st != ntstatus.Success {
			return st
		}
		c.preauth.Update(r.msg)
		r.resp.hash = &c.preauth
	}
	c.agreed = newAgreement(&c.srv.cfg, dialect, signing)
	c.agreed.client = smbwire.ValidateNegotiateRequest{
		Capabilities: q.Capabilities, GUID: q.ClientGUID, SecurityMode: q.SecurityMode, Dialects: q.Dialects,
	}
	resp := c.agreed.response(c.srv)
	resp.Contexts = contexts
	r.resp.set(resp.AppendTo(r.resp.begin(256)))
	return ntstatus.Success
}

// chooseContexts returns the response to the contexts of dialect 3.1.1. The context for
// pre-authentication integrity is compulsory. The contexts for encryption and compression
// get no response, which means that the server offers neither.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 2.2.4.1]
func chooseContexts(list []smbwire.NegotiateContext) (out []smbwire.NegotiateContext, signing smbauth.SigningAlgorithm, st ntstatus.Status) {
	signing = smbauth.AESCMAC
	var seen [2]int
	for _, x := range list {
		switch x.Type {
		case smbwire.ContextPreauthIntegrity:
			seen[0]++
			p, err := smbwire.DecodePreauthIntegrity(x.Data)
			if err != nil || len(p.Hashes) == 0 {
				return nil, 0, ntstatus.InvalidParameter
			}
			if !slices.Contains(p.Hashes, smbwire.HashSHA512) {
				return nil, 0, ntstatus.SMBNoPreauthIntegrityHashOverlap
			}
			answer := smbwire.PreauthIntegrity{Hashes: []uint16{smbwire.HashSHA512}, Salt: make([]byte, saltSize)}
			rand.Read(answer.Salt)
			out = append(out, smbwire.NegotiateContext{Type: x.Type, Data: answer.AppendTo(nil)})
		case smbwire.ContextSigning:
			seen[1]++
			offered, err := smbwire.DecodeAlgorithms(x.Data)
			if err != nil || len(offered) == 0 {
				return nil, 0, ntstatus.InvalidParameter
			}
			for _, a := range [...]uint16{smbwire.SigningAESGMAC, smbwire.SigningAESCMAC, smbwire.SigningHMACSHA256} {
				if slices.Contains(offered, a) {
					signing = smbauth.SigningAlgorithm(a)
					out = append(out, smbwire.NegotiateContext{Type: x.Type, Data: smbwire.AppendAlgorithms(nil, a)})
					break
				}
			}
		}
	}
	if seen[0] != 1 || seen[1] > 1 {
		return nil, 0, ntstatus.InvalidParameter
	}
	return out, signing, ntstatus.Success
}

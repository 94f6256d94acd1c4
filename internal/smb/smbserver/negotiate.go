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
	durable     bool // opens of the client can outlive the connection
	algorithms
}

// algorithms are the negotiated algorithms of a connection.
type algorithms struct {
	signing smbauth.SigningAlgorithm
	cipher  smbauth.Cipher
}

// newAgreement returns the values that follow from a dialect.
func newAgreement(cfg *Config, dialect uint16, alg algorithms) agreement {
	a := agreement{
		dialect: dialect, algorithms: alg, maxTransfer: minTransferSize,
	}
	if dialect != smbwire.Dialect202 {
		a.maxTransfer, a.multiCredit, a.caps = uint32(cfg.MaxTransferSize), true, smbwire.CapLargeMTU
		if cfg.Leases != LeasesOff {
			a.caps |= smbwire.CapLeasing
		}
	}
	if alg.cipher != smbauth.NoCipher && dialect < smbwire.Dialect311 {
		a.caps |= smbwire.CapEncryption
	}
	if a.durable = dialect >= smbwire.Dialect300 && cfg.Durable.Timeout >= 0; a.durable {
		a.caps |= smbwire.CapPersistentHandles
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
		SecurityBuffer: srv.hint,
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
	alg := algorithms{signing: smbauth.DefaultSigning(dialect)}
	encrypts := c.srv.cfg.Encryption != EncryptionOff
	if encrypts && q.Capabilities&smbwire.CapEncryption != 0 {
		alg.cipher = smbauth.DefaultCipher(dialect)
	}
	var contexts []smbwire.NegotiateContext
	if dialect == smbwire.Dialect311 {
		var st ntstatus.Status
		if contexts, alg, st = chooseContexts(q.Contexts, encrypts); st != ntstatus.Success {
			return st
		}
		c.preauth.Update(r.msg)
		r.resp.hash = &c.preauth
	}
	c.agreed = newAgreement(&c.srv.cfg, dialect, alg)
	c.agreed.client = smbwire.ValidateNegotiateRequest{
		Capabilities: q.Capabilities, GUID: q.ClientGUID, SecurityMode: q.SecurityMode, Dialects: q.Dialects,
	}
	if dialect >= smbwire.Dialect300 && c.srv.cfg.Leases == LeasesAll {
		c.agreed.caps |= q.Capabilities & smbwire.CapDirectoryLeasing
	}
	if dialect == smbwire.Dialect311 {
		c.agreed.caps |= q.Capabilities & smbwire.CapNotifications
	}
	resp := c.agreed.response(c.srv)
	resp.Contexts = contexts
	r.resp.set(resp.AppendTo(r.resp.begin(256)))
	return ntstatus.Success
}

// chooseContexts returns the response to the contexts of dialect 3.1.1. The context for
// pre-authentication integrity is compulsory. Contexts of other kinds get no response, and no
// context for encryption gets one if the server does not encrypt.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 2.2.4.1]
func chooseContexts(list []smbwire.NegotiateContext, encrypts bool) ([]smbwire.NegotiateContext, algorithms, ntstatus.Status) {
	alg := algorithms{signing: smbauth.AESCMAC}
	var out []smbwire.NegotiateContext
	seen := make(map[smbwire.ContextType]int)
	for _, x := range list {
		var answer []byte
		st := ntstatus.Success
		switch x.Type {
		case smbwire.ContextPreauthIntegrity:
			answer, st = choosePreauth(x.Data)
		case smbwire.ContextEncryption:
			if encrypts {
				alg.cipher, answer, st = chooseCipher(x.Data)
			}
		case smbwire.ContextSigning:
			alg.signing, answer, st = chooseSigning(x.Data)
		default:
			continue
		}
		if seen[x.Type]++; seen[x.Type] > 1 {
			st = ntstatus.InvalidParameter
		}
		if st != ntstatus.Success {
			return nil, alg, st
		}
		if answer != nil {
			out = append(out, smbwire.NegotiateContext{Type: x.Type, Data: answer})
		}
	}
	if seen[smbwire.ContextPreauthIntegrity] != 1 {
		return nil, alg, ntstatus.InvalidParameter
	}
	return out, alg, ntstatus.Success
}

// choosePreauth returns the response to the context for pre-authentication integrity.
func choosePreauth(data []byte) ([]byte, ntstatus.Status) {
	p, err := smbwire.DecodePreauthIntegrity(data)
	if err != nil || len(p.Hashes) == 0 {
		return nil, ntstatus.InvalidParameter
	}
	if !slices.Contains(p.Hashes, smbwire.HashSHA512) {
		return nil, ntstatus.SMBNoPreauthIntegrityHashOverlap
	}
	answer := smbwire.PreauthIntegrity{Hashes: []uint16{smbwire.HashSHA512}, Salt: make([]byte, saltSize)}
	rand.Read(answer.Salt)
	return answer.AppendTo(nil), ntstatus.Success
}

// chooseSigning returns the best common signing algorithm, and the response to its context:
// nil if there is no common one.
func chooseSigning(data []byte) (smbauth.SigningAlgorithm, []byte, ntstatus.Status) {
	offered, err := smbwire.DecodeAlgorithms(data)
	if err != nil || len(offered) == 0 {
		return 0, nil, ntstatus.InvalidParameter
	}
	for _, a := range [...]uint16{smbwire.SigningAESGMAC, smbwire.SigningAESCMAC, smbwire.SigningHMACSHA256} {
		if slices.Contains(offered, a) {
			return smbauth.SigningAlgorithm(a), smbwire.AppendAlgorithms(nil, a), ntstatus.Success
		}
	}
	return smbauth.AESCMAC, nil, ntstatus.Success
}

// chooseCipher returns the first cipher of the client's list that the server has, and the
// response to the context. NoCipher in the response means that there is no common one.
//
// Source: [MS-SMB2 2.2.3.1.2], [MS-SMB2 2.2.4.1.2]
func chooseCipher(data []byte) (smbauth.Cipher, []byte, ntstatus.Status) {
	offered, err := smbwire.DecodeAlgorithms(data)
	if err != nil || len(offered) == 0 {
		return smbauth.NoCipher, nil, ntstatus.InvalidParameter
	}
	chosen := smbauth.NoCipher
	if i := slices.IndexFunc(offered, func(id uint16) bool { return slices.Contains(smbauth.Ciphers, smbauth.Cipher(id)) }); i >= 0 {
		chosen = smbauth.Cipher(offered[i])
	}
	return chosen, smbwire.AppendAlgorithms(nil, uint16(chosen)), ntstatus.Success
}

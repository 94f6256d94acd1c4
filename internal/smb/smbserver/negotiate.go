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

// negotiated is what a connection has agreed on. It is fixed once dialect is
// one of the real ones.
//
// Source: [MS-SMB2 3.3.1.7]
type negotiated struct {
	dialect        uint16 // 0 before negotiation
	clientGUID     [16]byte
	clientCaps     uint32
	clientMode     uint16
	clientDialects []uint16
	caps           uint32
	mode           uint16
	maxTransfer    uint32 // of a read, write or transaction, in bytes
	multiCredit    bool
	signing        smbauth.SigningAlgorithm
}

// ready reports whether anything but a negotiation may follow.
func (n *negotiated) ready() bool { return n.dialect != 0 && n.dialect != smbwire.DialectWildcard }

// serverDialects are those that are spoken, the best first.
var serverDialects = [...]uint16{
	smbwire.Dialect311, smbwire.Dialect302, smbwire.Dialect300, smbwire.Dialect210, smbwire.Dialect202,
}

// dialectName spells a dialect as people do.
func dialectName(d uint16) string {
	if d&0xF == 0 {
		return fmt.Sprintf("%d.%d", d>>8, d>>4&0xF)
	}
	return fmt.Sprintf("%d.%d.%d", d>>8, d>>4&0xF, d&0xF)
}

// choose returns the best dialect that both sides speak, or 0.
//
// Source: [MS-SMB2 3.3.5.4]
func choose(client []uint16) uint16 {
	for _, d := range serverDialects {
		if slices.Contains(client, d) {
			return d
		}
	}
	return 0
}

// agree fixes the dialect and what follows from it.
func (c *conn) agree(dialect uint16) {
	c.dialect = dialect
	c.signing = smbauth.DefaultSigning(dialect)
	c.mode = smbwire.SigningEnabled
	if !c.srv.cfg.AllowUnsigned {
		c.mode |= smbwire.SigningRequired
	}
	c.maxTransfer, c.multiCredit, c.caps = minTransferSize, false, 0
	if dialect != smbwire.Dialect202 {
		c.maxTransfer, c.multiCredit = uint32(c.srv.cfg.MaxTransferSize), true
		c.caps = smbwire.CapLargeMTU
	}
}

// negotiate answers NEGOTIATE.
//
// Source: [MS-SMB2 3.3.5.4]
func (r *request) negotiate() ntstatus.Status {
	c := r.conn
	if c.ready() {
		return r.drop(fmt.Errorf("%w: second negotiation", errProtocol))
	}
	q, err := smbwire.DecodeNegotiateRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	if len(q.Dialects) == 0 {
		return ntstatus.InvalidParameter
	}
	dialect := choose(q.Dialects)
	if dialect == 0 {
		return ntstatus.NotSupported
	}
	signing := smbauth.DefaultSigning(dialect)
	var contexts []smbwire.NegotiateContext
	if dialect == smbwire.Dialect311 {
		var st ntstatus.Status
		if contexts, signing, st = answerContexts(q.Contexts); st != ntstatus.Success {
			return st
		}
		c.preauth.Update(r.msg)
		r.hash = &c.preauth
	}
	c.agree(dialect)
	c.signing = signing
	c.clientGUID, c.clientCaps, c.clientMode, c.clientDialects = q.ClientGUID, q.Capabilities, q.SecurityMode, q.Dialects
	resp := c.negotiateResponse(dialect)
	resp.Contexts = contexts
	r.set(resp.AppendTo(r.body(256)))
	return ntstatus.Success
}

func (c *conn) negotiateResponse(dialect uint16) smbwire.NegotiateResponse {
	return smbwire.NegotiateResponse{
		SecurityMode: c.mode, Dialect: dialect, ServerGUID: c.srv.cfg.GUID, Capabilities: c.caps,
		MaxTransactSize: c.maxTransfer, MaxReadSize: c.maxTransfer, MaxWriteSize: c.maxTransfer,
		SystemTime: smbwire.FiletimeOf(time.Now()), ServerStartTime: smbwire.FiletimeOf(c.srv.start),
		SecurityBuffer: smbauth.ServerHint(),
	}
}

// answerContexts chooses among what the contexts of dialect 3.1.1 offer. The
// context for pre-authentication integrity is compulsory. Encryption and
// compression are not answered, which says that there is none.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 2.2.4.1]
func answerContexts(list []smbwire.NegotiateContext) (out []smbwire.NegotiateContext, signing smbauth.SigningAlgorithm, st ntstatus.Status) {
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

package smbauth

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// MaxToken bounds a token of a client, in bytes. NTLM tokens are far shorter, and the Acceptor keeps
// parts of them until the end of the authentication. MaxKerberosToken is the bound of a server
// with Kerberos, where a ticket has the groups of the user. The Acceptor keeps no part of a ticket.
const (
	MaxToken         = 4 << 10
	MaxKerberosToken = 16 << 10
)

// maxMechList bounds the list of mechanisms, which the Acceptor keeps, in bytes.
const maxMechList = 1 << 10

// AcceptorConfig has the identity and the users of a server.
type AcceptorConfig struct {
	// ServerName is the server's NetBIOS and DNS computer name. Empty means
	// "LWIO".
	ServerName string
	// Lookup returns the canonical name of a user, and the NT hash of the user's password.
	// domain is the domain that the client names, often its own machine. Lookup must be safe
	// for concurrent use if acceptors share it.
	Lookup func(domain, user string) (name string, ntHash [16]byte, ok bool)
	// Kerberos checks tickets; nil does not offer Kerberos.
	Kerberos KerberosServer
	// LookupPrincipal returns the canonical name of the user of a principal. Kerberos needs it.
	LookupPrincipal func(realm, user string) (name string, ok bool)
	// RequireKerberos refuses NTLM.
	RequireKerberos bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Acceptor is the server's side of one authentication. It is not safe for concurrent use.
//
// Source: [MS-NLMP 3.2], [MS-SPNG 3.2], [RFC 4178 §4]
type Acceptor struct {
	cfg   AcceptorConfig
	state acceptorState

	spnego   bool
	mech     string // the chosen mechanism
	mechList []byte
	needMIC  bool // the client prefers another mechanism, so the MIC is compulsory
	kerberos *KerberosContext

	negotiate  []byte // NTLM bytes received and sent, for the MIC
	challenge  []byte
	nonce      [8]byte
	flags      uint32
	domain     string
	user       string // as the client spelled it
	name       string // canonical; empty before the client has proved its identity
	sessionKey []byte
	expires    time.Time
}

type acceptorState int

const (
	acceptorStart acceptorState = iota
	acceptorNegotiate
	acceptorAuthenticate
	acceptorMIC
	acceptorDone
	acceptorFailed
)

// NewAcceptor returns the server's side of an authentication with a copy of the
// configuration.
func NewAcceptor(cfg AcceptorConfig) *Acceptor {
	if cfg.ServerName == "" {
		cfg.ServerName = "LWIO"
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(string, string) (string, [16]byte, bool) { return "", [16]byte{}, false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Acceptor{cfg: cfg}
}

// ServerHint returns the token for a server's NEGOTIATE response, which offers the mechanisms of
// the configuration in SPNEGO. The caller owns it.
//
// Source: [MS-SPNG 3.2.5.2], [MS-SMB2 3.3.5.4]
func (c *AcceptorConfig) ServerHint() []byte {
	var mechs []string
	for _, m := range []string{oidMSKerberos, oidKerberos, oidNTLMSSP} {
		if c.offers(m) {
			mechs = append(mechs, m)
		}
	}
	return serverHint(mechs...)
}

// offers reports whether a client may use a mechanism.
func (c *AcceptorConfig) offers(mech string) bool {
	switch mech {
	case oidNTLMSSP:
		return !c.RequireKerberos
	case oidKerberos, oidMSKerberos:
		return c.Kerberos != nil
	}
	return false
}

// maxToken returns the bound of a token, in bytes.
func (c *AcceptorConfig) maxToken() int {
	if c.Kerberos != nil {
		return MaxKerberosToken
	}
	return MaxToken
}

// Step takes the client's token and returns the next token to send. When done is true, the
// client has proved to be User. out is then the token of the SUCCESS response; it is empty
// if the client spoke NTLM without SPNEGO.
//
// Errors: *Error, wrapping one of the sentinels and the NTSTATUS of the response; after an
// error the Acceptor cannot be used.
//
// Source: [MS-NLMP 3.2.5], [RFC 4178 §5]
func (a *Acceptor) Step(in []byte) (out []byte, done bool, err error) {
	if len(in) > a.cfg.maxToken() {
		err = fmt.Errorf("a token of %d bytes: %w", len(in), ErrToken)
	} else {
		out, done, err = a.step(in)
	}
	if err != nil {
		a.state = acceptorFailed
		a.sessionKey = nil
		return nil, false, &Error{Op: "authentication", Domain: a.domain, User: a.user, Err: err, status: statusOf(err)}
	}
	return out, done, nil
}

// step takes one token in its turn.
func (a *Acceptor) step(in []byte) (out []byte, done bool, err error) {
	switch a.state {
	case acceptorStart:
		out, err = a.first(in)
	case acceptorNegotiate:
		out, err = a.second(in)
	case acceptorAuthenticate:
		out, err = a.last(in)
	case acceptorMIC:
		out, err = a.lastMIC(in)
	default:
		err = fmt.Errorf("step after the end: %w", ErrToken)
	}
	return out, err == nil && a.state == acceptorDone, err
}

// User returns the canonical name of the authenticated user, empty before Step has returned
// done.
func (a *Acceptor) User() string {
	if a.state != acceptorDone {
		return ""
	}
	return a.name
}

// Domain returns the domain that the authenticated user named; it may be empty.
func (a *Acceptor) Domain() string {
	if a.state != acceptorDone {
		return ""
	}
	return a.domain
}

// SessionKey returns the secret shared with the client, 16 bytes or more; nil before Step has
// returned done.
func (a *Acceptor) SessionKey() []byte {
	if a.state != acceptorDone {
		return nil
	}
	return a.sessionKey
}

// Expires returns the end of the authentication, zero without one. Step has returned done.
func (a *Acceptor) Expires() time.Time { return a.expires }

// Mechanism returns the name of the chosen mechanism, for logs; "" before the choice.
func (a *Acceptor) Mechanism() string {
	switch {
	case isKerberos(a.mech):
		return "Kerberos"
	case a.mech != "":
		return "NTLM"
	}
	return ""
}

// first takes NTLM NEGOTIATE, bare or in SPNEGO, or a SPNEGO token with the request of Kerberos,
// or one that prefers another mechanism. The server uses the first mechanism of the client's list
// that it offers. It tries no other one if that fails.
//
// Source: [RFC 4178 §4.2.1]
func (a *Acceptor) first(in []byte) ([]byte, error) {
	if isNTLM(in) {
		if !a.cfg.offers(oidNTLMSSP) {
			return nil, fmt.Errorf("the client offers no Kerberos: %w", ErrMechanism)
		}
		a.mech = oidNTLMSSP
		return a.challengeFor(in)
	}
	t, err := decodeNegTokenInit(in)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(t.Mechs, a.cfg.offers)
	switch {
	case at < 0 && a.cfg.RequireKerberos:
		return nil, fmt.Errorf("the client offers no Kerberos: %w", ErrMechanism)
	case at < 0:
		return nil, fmt.Errorf("the client offers no NTLM: %w", ErrMechanism)
	case len(t.MechList) > maxMechList:
		return nil, fmt.Errorf("a list of mechanisms of %d bytes: %w", len(t.MechList), ErrToken)
	}
	a.spnego, a.mech = true, t.Mechs[at]
	a.mechList = slices.Clone(t.MechList)
	if at > 0 {
		a.needMIC = true
		a.state = acceptorNegotiate
		resp := negTokenResp{State: stateRequestMIC, Mech: a.mech}
		return resp.appendTo(nil), nil
	}
	if t.Token == nil {
		a.state = acceptorNegotiate
		resp := negTokenResp{State: stateAcceptIncomplete, Mech: a.mech}
		return resp.appendTo(nil), nil
	}
	return a.begin(t.Token, nil, a.mech)
}

// second takes the first token of the mechanism that the server has chosen.
func (a *Acceptor) second(in []byte) ([]byte, error) {
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, err
	}
	return a.begin(resp.Token, resp.MIC, "")
}

// begin takes the first token of a mechanism and, of Kerberos, the code over the list of
// mechanisms. mech is in the response, if it is not "".
func (a *Acceptor) begin(token, mic []byte, mech string) ([]byte, error) {
	if isKerberos(a.mech) {
		return a.acceptTicket(token, mic, mech)
	}
	return a.wrapChallenge(token, mech)
}

func (a *Acceptor) wrapChallenge(negotiate []byte, mech string) ([]byte, error) {
	c, err := a.challengeFor(negotiate)
	if err != nil {
		return nil, err
	}
	resp := negTokenResp{State: stateAcceptIncomplete, Mech: mech, Token: c}
	return resp.appendTo(nil), nil
}

// challengeFor returns the response to NTLM NEGOTIATE.
//
// Source: [MS-NLMP 3.2.5.1.1]
func (a *Acceptor) challengeFor(in []byte) ([]byte, error) {
	m, err := decodeNegotiate(in)
	if err == nil && len(in) > MaxToken {
		err = fmt.Errorf("a token of %d bytes: %w", len(in), ErrToken)
	}
	if err != nil {
		return nil, err
	}
	if m.Flags&requiredFlags != requiredFlags {
		return nil, fmt.Errorf("NTLM flags %#x: %w", m.Flags, ErrWeak)
	}
	rand.Read(a.nonce[:])
	name := appendUTF16(nil, a.cfg.ServerName)
	c := challengeMessage{
		Flags: m.Flags&(requiredFlags|flagSign|flagSeal|flagAlwaysSign|flagKeyExchange|flag56) |
			flagRequestTarget | flagTargetInfo | flagTargetTypeServer,
		Challenge:  a.nonce,
		TargetName: a.cfg.ServerName,
		TargetInfo: appendAVPairs(nil, []avPair{
			{avNbDomainName, name},
			{avNbComputerName, name},
			{avDNSDomainName, nil},
			{avDNSComputerName, name},
			{avTimestamp, binary.LittleEndian.AppendUint64(nil, filetime(a.cfg.Now()))},
		}),
	}
	a.flags = c.Flags
	a.negotiate = slices.Clone(in)
	a.challenge = c.appendTo(nil)
	a.state = acceptorAuthenticate
	return a.challenge, nil
}

// last takes NTLM AUTHENTICATE and the MIC of the mechanism list.
func (a *Acceptor) last(in []byte) ([]byte, error) {
	if !a.spnego {
		_, err := a.authenticate(in)
		if err == nil {
			a.state = acceptorDone
		}
		return nil, err
	}
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, err
	}
	keyExchange, err := a.authenticate(resp.Token)
	if err != nil {
		return nil, err
	}
	final := negTokenResp{State: stateAcceptCompleted}
	switch {
	case resp.MIC != nil:
		if !newNTLMSigner([16]byte(a.sessionKey), true, keyExchange).verify(a.mechList, resp.MIC) {
			return nil, fmt.Errorf("mechanism list: %w", ErrIntegrity)
		}
		mic := newNTLMSigner([16]byte(a.sessionKey), false, keyExchange).mic(a.mechList)
		final.MIC = mic[:]
	case a.needMIC:
		return nil, fmt.Errorf("mechanism list without a code: %w", ErrIntegrity)
	}
	a.state = acceptorDone
	return final.appendTo(nil), nil
}

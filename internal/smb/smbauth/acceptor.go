package smbauth

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// MaxToken bounds a token of a client, in bytes. NTLM tokens are far shorter, and the Acceptor keeps
// parts of them until the end of the authentication.
const MaxToken = 4 << 10

// AcceptorConfig has the identity and the users of a server.
type AcceptorConfig struct {
	// ServerName is the server's NetBIOS and DNS computer name. Empty means
	// "LWIO".
	ServerName string
	// Lookup returns the canonical name of a user, and the NT hash of the user's password.
	// domain is the domain that the client names, often its own machine. Lookup must be safe
	// for concurrent use if acceptors share it.
	Lookup func(domain, user string) (name string, ntHash [16]byte, ok bool)
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
	mechList []byte
	needMIC  bool // the client did not prefer NTLM, so the MIC is compulsory

	negotiate  []byte // NTLM bytes received and sent, for the MIC
	challenge  []byte
	nonce      [8]byte
	flags      uint32
	domain     string
	user       string // as the client spelled it
	name       string // canonical; empty before the password was found right
	sessionKey [16]byte
}

type acceptorState int

const (
	acceptorStart acceptorState = iota
	acceptorNegotiate
	acceptorAuthenticate
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

// ServerHint returns the token for a server's NEGOTIATE response, which offers NTLM in
// SPNEGO. The caller owns it.
//
// Source: [MS-SPNG 3.2.5.2], [MS-SMB2 3.3.5.4]
func ServerHint() []byte { return serverHint() }

// Step takes the client's token and returns the next token to send. When done is true, the
// client has proved to be User. out is then the token of the SUCCESS response; it is empty
// if the client spoke NTLM without SPNEGO.
//
// Errors: *Error, wrapping one of the sentinels and the NTSTATUS of the response; after an
// error the Acceptor cannot be used.
//
// Source: [MS-NLMP 3.2.5], [RFC 4178 §5]
func (a *Acceptor) Step(in []byte) (out []byte, done bool, err error) {
	if len(in) > MaxToken {
		err = fmt.Errorf("a token of %d bytes: %w", len(in), ErrToken)
	} else {
		out, done, err = a.step(in)
	}
	if err != nil {
		a.state = acceptorFailed
		a.sessionKey = [16]byte{}
		return nil, false, &Error{Op: "authentication", Domain: a.domain, User: a.user, Err: err}
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
		done = err == nil
	default:
		err = fmt.Errorf("step after the end: %w", ErrToken)
	}
	return out, done, err
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

// SessionKey returns the secret shared with the client, zero before Step has returned done.
func (a *Acceptor) SessionKey() [16]byte {
	if a.state != acceptorDone {
		return [16]byte{}
	}
	return a.sessionKey
}

// first takes NTLM NEGOTIATE, bare or in SPNEGO, or a SPNEGO token that prefers another
// mechanism.
func (a *Acceptor) first(in []byte) ([]byte, error) {
	if isNTLM(in) {
		return a.challengeFor(in)
	}
	t, err := decodeNegTokenInit(in)
	if err != nil {
		return nil, err
	}
	at := slices.Index(t.Mechs, oidNTLMSSP)
	if at < 0 {
		return nil, fmt.Errorf("the client offers no NTLM: %w", ErrMechanism)
	}
	a.spnego = true
	a.mechList = slices.Clone(t.MechList)
	if at > 0 {
		a.needMIC = true
		a.state = acceptorNegotiate
		resp := negTokenResp{State: stateRequestMIC, Mech: oidNTLMSSP}
		return resp.appendTo(nil), nil
	}
	if t.Token == nil {
		a.state = acceptorNegotiate
		resp := negTokenResp{State: stateAcceptIncomplete, Mech: oidNTLMSSP}
		return resp.appendTo(nil), nil
	}
	return a.wrapChallenge(t.Token, oidNTLMSSP)
}

// second takes NTLM NEGOTIATE after the server has chosen NTLM.
func (a *Acceptor) second(in []byte) ([]byte, error) {
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, err
	}
	return a.wrapChallenge(resp.Token, "")
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
		if !newNTLMSigner(a.sessionKey, true, keyExchange).verify(a.mechList, resp.MIC) {
			return nil, fmt.Errorf("mechanism list: %w", ErrIntegrity)
		}
		mic := newNTLMSigner(a.sessionKey, false, keyExchange).mic(a.mechList)
		final.MIC = mic[:]
	case a.needMIC:
		return nil, fmt.Errorf("mechanism list without a code: %w", ErrIntegrity)
	}
	a.state = acceptorDone
	return final.appendTo(nil), nil
}

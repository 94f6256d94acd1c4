package smbauth

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// InitiatorConfig has the credentials of a client and its target.
type InitiatorConfig struct {
	User     string
	Password string
	// NTHash is used in place of Password if it is not nil.
	NTHash *[16]byte
	// Domain is empty for an account of the server itself.
	Domain string
	// Workstation is the name of this machine, for the server's logs.
	Workstation string
	// TargetSPN is the target service, such as "cifs/host". It is sent under the
	// protection of the message integrity code.
	TargetSPN string
	// Kerberos is used in place of NTLM if it is not nil. NTLM is not offered then.
	Kerberos KerberosExchange
	// Now is the clock for servers that send no time; nil means time.Now.
	Now func() time.Time
}

// Initiator is the client's side of one authentication. It is not safe for concurrent use.
//
// Source: [MS-NLMP 3.1], [MS-SPNG 3.1], [RFC 4178 §4]
type Initiator struct {
	cfg   InitiatorConfig
	state initiatorState

	mechList   []byte
	negotiate  []byte // NTLM bytes sent, for the MIC
	sessionKey []byte
	expires    time.Time
	verify     func(data, mic []byte) bool // of the server's mechListMIC
}

type initiatorState int

const (
	initiatorStart initiatorState = iota
	initiatorChallenge
	initiatorFinal
	initiatorDone
	initiatorFailed
)

// NewInitiator returns the client's side of an authentication with a copy of the
// configuration.
func NewInitiator(cfg InitiatorConfig) *Initiator {
	if cfg.NTHash != nil {
		h := *cfg.NTHash
		cfg.NTHash = &h
	} else {
		h := NTHash(cfg.Password)
		cfg.NTHash = &h
	}
	cfg.Password = ""
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	list := mechList(oidNTLMSSP)
	if cfg.Kerberos != nil {
		list = mechList(oidMSKerberos, oidKerberos)
	}
	return &Initiator{cfg: cfg, mechList: list}
}

// Step takes the server's token and returns the next token to send.
//
// The first call takes the security buffer of the server's NEGOTIATE response, or nil. done
// is true once the server has accepted and its proofs have been checked; out is nil then. A
// SUCCESS response with an empty buffer is an empty in.
//
// Errors: *Error, wrapping ErrToken, ErrMechanism, ErrWeak or ErrIntegrity; after an error
// the Initiator cannot be used.
//
// Source: [MS-NLMP 3.1.5], [RFC 4178 §5]
func (i *Initiator) Step(in []byte) (out []byte, done bool, err error) {
	switch i.state {
	case initiatorStart:
		out, err = i.start(in)
	case initiatorChallenge:
		if i.cfg.Kerberos != nil {
			out, done, err = i.takeReply(in)
			break
		}
		out, err = i.respond(in)
	case initiatorFinal:
		err = i.finish(in)
		done = err == nil
	default:
		err = fmt.Errorf("step after the end: %w", ErrToken)
	}
	if err != nil {
		i.state = initiatorFailed
		return nil, false, &Error{Op: "logon", Domain: i.cfg.Domain, User: i.cfg.User, Err: err}
	}
	i.state++
	if done {
		i.state = initiatorDone
	}
	return out, done, nil
}

// SessionKey returns the secret that both sides share, 16 bytes or more. Step has returned done.
func (i *Initiator) SessionKey() []byte { return i.sessionKey }

// Expires returns the end of the authentication, zero without one. Step has returned done.
func (i *Initiator) Expires() time.Time { return i.expires }

// start returns the first token.
func (i *Initiator) start(hint []byte) ([]byte, error) {
	if isSPNEGOInit(hint) {
		t, err := decodeNegTokenInit(hint)
		if err != nil {
			return nil, err
		}
		switch {
		case i.cfg.Kerberos != nil && !slices.ContainsFunc(t.Mechs, isKerberos):
			return nil, fmt.Errorf("the server offers no Kerberos: %w", ErrMechanism)
		case i.cfg.Kerberos == nil && !slices.Contains(t.Mechs, oidNTLMSSP):
			return nil, fmt.Errorf("the server offers no NTLM: %w", ErrMechanism)
		}
	}
	if i.cfg.Kerberos != nil {
		t := negTokenInit{MechList: i.mechList, Token: i.cfg.Kerberos.Request().appendTo(nil)}
		return t.appendTo(nil), nil
	}
	m := negotiateMessage{Flags: requiredFlags | flagRequestTarget | flagSign | flagSeal |
		flagAlwaysSign | flagTargetInfo | flagKeyExchange | flag56}
	i.negotiate = m.appendTo(nil)
	t := negTokenInit{MechList: i.mechList, Token: i.negotiate}
	return t.appendTo(nil), nil
}

// respond returns the AUTHENTICATE message for the server's CHALLENGE.
func (i *Initiator) respond(in []byte) ([]byte, error) {
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, err
	}
	if resp.Mech != "" && resp.Mech != oidNTLMSSP {
		return nil, fmt.Errorf("the server chose a mechanism that was not offered: %w", ErrMechanism)
	}
	if resp.State != stateAbsent && resp.State != stateAcceptIncomplete && resp.State != stateRequestMIC {
		return nil, fmt.Errorf("SPNEGO state %d before the end: %w", resp.State, ErrMechanism)
	}
	auth, flags, err := i.authenticate(resp.Token)
	if err != nil {
		return nil, err
	}
	key, keyExchange := [16]byte(i.sessionKey), flags&flagKeyExchange != 0
	i.verify = newNTLMSigner(key, false, keyExchange).verify
	mic := newNTLMSigner(key, true, keyExchange).mic(i.mechList)
	next := negTokenResp{State: stateAcceptIncomplete, Token: auth, MIC: mic[:]}
	return next.appendTo(nil), nil
}

// authenticate makes the NTLM AUTHENTICATE message and the session key.
//
// Source: [MS-NLMP 3.1.5.1.2]
func (i *Initiator) authenticate(challenge []byte) ([]byte, uint32, error) {
	c, err := decodeChallenge(challenge)
	if err != nil {
		return nil, 0, err
	}
	if c.Flags&requiredFlags != requiredFlags {
		return nil, 0, fmt.Errorf("NTLM flags %#x: %w", c.Flags, ErrWeak)
	}
	pairs, _, err := decodeAVPairs(c.TargetInfo)
	if err != nil {
		return nil, 0, err
	}
	now, ok := findAV(pairs, avTimestamp)
	if !ok || len(now) != 8 {
		now = binary.LittleEndian.AppendUint64(nil, filetime(i.cfg.Now()))
	}
	owf := ntowfv2(*i.cfg.NTHash, i.cfg.Domain, i.cfg.User)
	var nonce [8]byte
	rand.Read(nonce[:])
	proven := appendClientChallenge(nil, binary.LittleEndian.Uint64(now), nonce, i.responsePairs(pairs))
	proof := ntProof(owf, c.Challenge, proven)
	sessionKey := hmacMD5(owf[:], proof[:])

	m := authenticateMessage{
		Flags: c.Flags & (requiredFlags | flagRequestTarget | flagSign | flagSeal | flagAlwaysSign |
			flagTargetInfo | flagKeyExchange | flag56),
		LM:     make([]byte, ntlmv1ResponseSize),
		NT:     append(proof[:], proven...),
		Domain: i.cfg.Domain, User: i.cfg.User, Workstation: i.cfg.Workstation,
	}
	if c.Flags&flagKeyExchange != 0 {
		base := sessionKey
		rand.Read(sessionKey[:])
		key := rc4Key(base, sessionKey)
		m.SessionKey = key[:]
	}
	i.sessionKey = sessionKey[:]
	auth := m.appendTo(nil)
	mic := hmacMD5(i.sessionKey, i.negotiate, challenge, auth)
	copy(auth[authenticateMICOff:], mic[:])
	return auth, c.Flags, nil
}

// responsePairs returns the server's pairs and the pairs that the client adds.
//
// Source: [MS-NLMP 3.1.5.1.2]
func (i *Initiator) responsePairs(server []avPair) []avPair {
	flags := uint32(avFlagMIC)
	var pairs []avPair
	for _, p := range server {
		switch p.ID {
		case avFlags:
			if len(p.Value) == 4 {
				flags |= binary.LittleEndian.Uint32(p.Value)
			}
		case avTargetName, avChannelBindings:
		default:
			pairs = append(pairs, p)
		}
	}
	return append(pairs,
		avPair{avFlags, binary.LittleEndian.AppendUint32(nil, flags)},
		avPair{avChannelBindings, make([]byte, 16)},
		avPair{avTargetName, appendUTF16(nil, i.cfg.TargetSPN)})
}

// finish checks the server's last token. The server may omit its MIC, because the client
// offers a single mechanism. The mechanism has no further token.
//
// Source: [RFC 4178 §5]
func (i *Initiator) finish(in []byte) error {
	if len(in) == 0 {
		return nil
	}
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return err
	}
	if resp.State != stateAcceptCompleted && resp.State != stateAbsent || resp.Token != nil {
		return fmt.Errorf("SPNEGO state %d with a token of %d bytes at the end: %w", resp.State, len(resp.Token), ErrToken)
	}
	if resp.MIC != nil && !i.verify(i.mechList, resp.MIC) {
		return fmt.Errorf("mechanism list: %w", ErrIntegrity)
	}
	return nil
}

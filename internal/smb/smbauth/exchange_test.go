package smbauth

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"pgregory.net/rapid"
)

func lookupAlice(_, user string) (string, [16]byte, bool) {
	return "alice", NTHash("wonderland"), strings.EqualFold(user, "alice")
}

func newPair(user, password string) (*Initiator, *Acceptor) {
	i := NewInitiator(InitiatorConfig{User: user, Password: password, Domain: "D", Workstation: "PC", TargetSPN: "cifs/host"})
	a := NewAcceptor(AcceptorConfig{ServerName: "HOST", Lookup: lookupAlice})
	return i, a
}

// run passes tokens between the two sides until both are done or one fails. mangle, if not
// nil, may change a token; step counts them from 0.
func run(i *Initiator, a *Acceptor, hint []byte, mangle func(step int, token []byte) []byte) (ierr, aerr error) {
	if mangle == nil {
		mangle = func(_ int, t []byte) []byte { return t }
	}
	in := hint
	for step := 0; ; step += 2 {
		out, done, err := i.Step(in)
		if err != nil || done {
			return err, nil
		}
		in, _, err = a.Step(mangle(step, out))
		if err != nil {
			return nil, err
		}
		in = mangle(step+1, in)
	}
}

// Source: [MS-NLMP 3.1.5], [MS-NLMP 3.2.5], [RFC 4178 §5]
func TestInitiatorAndAcceptorAgreeOnKeys(t *testing.T) {
	for name, hint := range map[string][]byte{"no hint": nil, "hint": new(AcceptorConfig).ServerHint()} {
		i, a := newPair("ALICE", "wonderland") // the canonical name is in lower case
		if ierr, aerr := run(i, a, hint, nil); ierr != nil || aerr != nil {
			t.Fatalf("%s: %v, %v", name, ierr, aerr)
		}
		if a.User() != "alice" || a.Domain() != "D" {
			t.Errorf("%s: authenticated %q of %q", name, a.User(), a.Domain())
		}
		if !bytes.Equal(i.SessionKey(), a.SessionKey()) || len(a.SessionKey()) != 16 {
			t.Errorf("%s: session keys %x and %x", name, i.SessionKey(), a.SessionKey())
		}
		if _, _, err := a.Step(nil); !errors.Is(err, ErrToken) {
			t.Errorf("%s: acceptor steps on after the end: %v", name, err)
		}
		if _, _, err := i.Step(nil); !errors.Is(err, ErrToken) {
			t.Errorf("%s: initiator steps on after the end: %v", name, err)
		}
	}
}

// Source: [MS-NLMP 3.2.5.1.2]
func TestWrongCredentialsAreRefused(t *testing.T) {
	for _, c := range []struct{ user, password string }{{"alice", "Wonderland"}, {"bob", "wonderland"}, {"bob", ""}} {
		i, a := newPair(c.user, c.password)
		_, err := run(i, a, nil, nil)
		if !errors.Is(err, ErrCredentials) || !errors.Is(err, ntstatus.LogonFailure) || ntstatus.Of(err) != ntstatus.LogonFailure {
			t.Errorf("%s/%s: %v", c.user, c.password, err)
		}
		var e *Error
		if !errors.As(err, &e) || e.User != c.user || e.Domain != "D" {
			t.Errorf("%s: error names %+v", c.user, e)
		}
		if a.User() != "" || a.SessionKey() != nil {
			t.Errorf("%s: failed acceptor gives user %q, key %x", c.user, a.User(), a.SessionKey())
		}
	}
}

// The exchange fails after a change of any bit of the NTLM messages, of the list of
// mechanisms, or of the codes over it.
//
// Source: [MS-NLMP 3.1.5.1.2] (MIC), [RFC 4178 §5]
func TestModifiedTokensAreRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.IntRange(0, 3).Draw(t, "step")
		at, bit := rapid.IntRange(0, 1000).Draw(t, "at"), rapid.IntRange(0, 7).Draw(t, "bit")
		i, a := newPair("alice", "wonderland")
		ierr, aerr := run(i, a, nil, func(s int, tok []byte) []byte {
			if s != step {
				return tok
			}
			tok = bytes.Clone(tok)
			from := bytes.Index(tok, []byte(ntlmSignature))
			if from < 0 {
				from = len(tok) - 16
			}
			tok[from+at%(len(tok)-from)] ^= 1 << bit
			return tok
		})
		if ierr == nil && aerr == nil {
			t.Fatalf("bit %d of byte %d of token %d changed unnoticed", bit, at, step)
		}
	})
}

// Source: [MS-NLMP 3.2.5.1.1]
func TestNTLMWithoutSPNEGOIsAccepted(t *testing.T) {
	i, a := newPair("alice", "wonderland")
	if _, _, err := i.Step(nil); err != nil {
		t.Fatal(err)
	}
	challenge, done, err := a.Step(i.negotiate)
	if err != nil || done || !isNTLM(challenge) {
		t.Fatalf("challenge %x, done %v, %v", challenge, done, err)
	}
	auth, _, err := i.authenticate(challenge)
	if err != nil {
		t.Fatal(err)
	}
	out, done, err := a.Step(auth)
	if err != nil || !done || out != nil {
		t.Fatalf("last token %x, done %v, %v", out, done, err)
	}
	if !bytes.Equal(i.SessionKey(), a.SessionKey()) || a.User() != "alice" {
		t.Errorf("user %q, keys differ: %v", a.User(), !bytes.Equal(i.SessionKey(), a.SessionKey()))
	}
}

// The server chooses NTLM for a client that prefers Kerberos; the client then must protect its
// list of mechanisms.
//
// Source: [RFC 4178 §4.2.2] (request-mic), [MS-SPNG 3.2.5.4]
func TestClientThatPrefersAnotherMechanismIsLedToNTLM(t *testing.T) {
	const kerberos = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
	list := derWrap(append(derAppend(nil, derOID, []byte(kerberos)), derAppend(nil, derOID, []byte(oidNTLMSSP))...), derSequence)
	for _, withMIC := range []bool{true, false} {
		i, a := newPair("alice", "wonderland")
		i.mechList = list
		if _, _, err := i.Step(nil); err != nil {
			t.Fatal(err)
		}
		first := negTokenInit{MechList: list, Token: []byte("ticket")}
		out, _, err := a.Step(first.appendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := decodeNegTokenResp(out)
		if err != nil || resp.State != stateRequestMIC || resp.Mech != oidNTLMSSP || resp.Token != nil {
			t.Fatalf("response %+v, %v", resp, err)
		}
		next := negTokenResp{State: stateAbsent, Token: i.negotiate}
		if out, _, err = a.Step(next.appendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if out, _, err = i.Step(out); err != nil {
			t.Fatal(err)
		}
		if !withMIC {
			resp, err := decodeNegTokenResp(out)
			if err != nil {
				t.Fatal(err)
			}
			resp.MIC = nil
			if _, _, err = a.Step(resp.appendTo(nil)); !errors.Is(err, ErrIntegrity) {
				t.Errorf("without a code: %v", err)
			}
			continue
		}
		out, done, err := a.Step(out)
		if err != nil || !done {
			t.Fatalf("done %v, %v", done, err)
		}
		if _, done, err = i.Step(out); err != nil || !done {
			t.Errorf("initiator: done %v, %v", done, err)
		}
	}
}

// Source: [MS-NLMP 3.2.5.1.2], [MS-NLMP 2.2.2.5]
func TestAcceptorRefusesWeakOrMalformedTokens(t *testing.T) {
	start := func(t *testing.T) *Acceptor {
		_, a := newPair("alice", "wonderland")
		m := negotiateMessage{Flags: requiredFlags}
		if _, _, err := a.Step(m.appendTo(nil)); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, c := range map[string]struct {
		m      authenticateMessage
		want   error
		status ntstatus.Status
	}{
		"anonymous flag": {authenticateMessage{Flags: requiredFlags | flagAnonymous, User: "alice", NT: make([]byte, 60)}, ErrAnonymous, ntstatus.AccessDenied},
		"empty user":     {authenticateMessage{Flags: requiredFlags, NT: make([]byte, 60)}, ErrAnonymous, ntstatus.AccessDenied},
		"no NT response": {authenticateMessage{Flags: requiredFlags, User: "alice", LM: make([]byte, 24)}, ErrAnonymous, ntstatus.AccessDenied},
		"NTLMv1":         {authenticateMessage{Flags: requiredFlags, User: "alice", NT: make([]byte, 24)}, ErrWeak, ntstatus.LogonFailure},
		"no Unicode":     {authenticateMessage{Flags: flagNTLM, User: "alice", NT: make([]byte, 60)}, ErrWeak, ntstatus.LogonFailure},
	} {
		_, _, err := start(t).Step(c.m.appendTo(nil))
		if !errors.Is(err, c.want) || ntstatus.Of(err) != c.status {
			t.Errorf("%s: %v, status %v", name, err, ntstatus.Of(err))
		}
	}
	for _, missing := range []uint32{flagUnicode, flagNTLM, flagExtendedSession, flag128} {
		_, a := newPair("alice", "wonderland")
		m := negotiateMessage{Flags: requiredFlags &^ missing}
		if _, _, err := a.Step(m.appendTo(nil)); !errors.Is(err, ErrWeak) {
			t.Errorf("without flag %#x: %v", missing, err)
		}
	}
}

// A message that announces a code must be long enough to hold one.
//
// Source: [MS-NLMP 2.2.1.3]
func TestAnnouncedMICMustExist(t *testing.T) {
	_, a := newPair("alice", "wonderland")
	if err := a.checkMIC([16]byte{}, make([]byte, authenticateSize-1)); !errors.Is(err, ErrToken) {
		t.Errorf("short message: %v", err)
	}
}

// Source: [MS-NLMP 3.1.5.1.2]
func TestInitiatorRefusesWeakServers(t *testing.T) {
	now := func() time.Time { return time.Unix(0, 0) }
	for name, c := range map[string]struct {
		resp negTokenResp
		want error
	}{
		"no 128 bits": {negTokenResp{State: stateAbsent, Token: (&challengeMessage{Flags: requiredFlags &^ flag128}).appendTo(nil)}, ErrWeak},
		"no info":     {negTokenResp{State: stateAbsent, Token: (&challengeMessage{Flags: requiredFlags}).appendTo(nil)}, ErrToken},
		"rejected":    {negTokenResp{State: stateReject}, ErrMechanism},
		"other mech":  {negTokenResp{State: stateAbsent, Mech: "\x2a"}, ErrMechanism},
	} {
		i := NewInitiator(InitiatorConfig{User: "alice", Now: now})
		if _, _, err := i.Step(nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := i.Step(c.resp.appendTo(nil)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kerberosOnly := negTokenInit{MechList: derWrap([]byte("\x2a"), derSequence, derOID)}
	if _, _, err := NewInitiator(InitiatorConfig{}).Step(kerberosOnly.appendTo(nil)); !errors.Is(err, ErrMechanism) {
		t.Errorf("server without NTLM: %v", err)
	}
}

// A user with an empty password cannot log on.
func TestEmptyPasswordIsRefused(t *testing.T) {
	i := NewInitiator(InitiatorConfig{User: "alice", Password: "", Domain: "D", Workstation: "PC", TargetSPN: "cifs/host"})
	a := NewAcceptor(AcceptorConfig{Lookup: func(_, user string) (string, [16]byte, bool) { return user, NTHash(""), true }})
	if _, err := run(i, a, nil, nil); !errors.Is(err, ErrCredentials) {
		t.Errorf("logon with an empty password: %v", err)
	}
}

package smbauth

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sampleMessages are one encoded message of each kind with its decoder.
func sampleMessages() map[string]struct {
	raw    []byte
	decode func([]byte) error
} {
	neg := negotiateMessage{Flags: requiredFlags | flagDomainSupplied | flagWorkstation, Domain: []byte("DOM"), Workstation: []byte("PC")}
	chal := challengeMessage{
		Flags: requiredFlags | flagTargetInfo, TargetName: "srv", Challenge: [8]byte{1, 2, 3},
		TargetInfo: appendAVPairs(nil, []avPair{{avNbComputerName, []byte("s\x00")}}),
	}
	auth := authenticateMessage{
		Flags: requiredFlags, LM: make([]byte, 24), NT: make([]byte, 60), Domain: "d", User: "u",
		Workstation: "w", SessionKey: make([]byte, 16),
	}
	init := negTokenInit{MechList: mechList(oidNTLMSSP), Token: neg.appendTo(nil), MIC: make([]byte, 16)}
	resp := negTokenResp{State: stateAcceptIncomplete, Mech: oidNTLMSSP, Token: chal.appendTo(nil), MIC: make([]byte, 16)}
	type row = struct {
		raw    []byte
		decode func([]byte) error
	}
	return map[string]row{
		"negotiate":    {neg.appendTo(nil), func(b []byte) error { _, err := decodeNegotiate(b); return err }},
		"challenge":    {chal.appendTo(nil), func(b []byte) error { _, err := decodeChallenge(b); return err }},
		"authenticate": {auth.appendTo(nil), func(b []byte) error { _, err := decodeAuthenticate(b); return err }},
		"avPairs":      {chal.TargetInfo, func(b []byte) error { _, _, err := decodeAVPairs(b); return err }},
		"negTokenInit": {init.appendTo(nil), func(b []byte) error { _, err := decodeNegTokenInit(b); return err }},
		"negTokenResp": {resp.appendTo(nil), func(b []byte) error { _, err := decodeNegTokenResp(b); return err }},
		"serverHint":   {serverHint(oidNTLMSSP), func(b []byte) error { _, err := decodeNegTokenInit(b); return err }},
	}
}

// Source: [MS-NLMP 2.2.1], [RFC 4178 §4.2]
func TestEveryPrefixIsRefused(t *testing.T) {
	for name, m := range sampleMessages() {
		if err := m.decode(m.raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range m.raw {
			if err := m.decode(m.raw[:n]); !errors.Is(err, ErrToken) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, n, len(m.raw), err)
			}
		}
	}
}

// Source: [MS-NLMP 2.2.1]
func TestNTLMRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-zäß€😀.-]{0,20}`)
		blob := rapid.SliceOfN(rapid.Byte(), 1, 80)
		a := authenticateMessage{
			Flags: requiredFlags | flagVersion, LM: blob.Draw(t, "lm"), NT: blob.Draw(t, "nt"), Domain: text.Draw(t, "domain"),
			User: text.Draw(t, "user"), Workstation: text.Draw(t, "station"), SessionKey: blob.Draw(t, "key"),
		}
		got, err := decodeAuthenticate(a.appendTo(nil))
		if err != nil || cmp.Diff(a, got) != "" {
			t.Fatalf("authenticate: %v %s", err, cmp.Diff(a, got))
		}
		c := challengeMessage{
			Flags: requiredFlags | flagTargetInfo | flagVersion, TargetName: text.Draw(t, "target"),
			TargetInfo: blob.Draw(t, "info"),
		}
		gotC, err := decodeChallenge(c.appendTo(nil))
		if err != nil || cmp.Diff(c, gotC) != "" {
			t.Fatalf("challenge: %v %s", err, cmp.Diff(c, gotC))
		}
	})
}

// Source: [RFC 4178 §4.2]
func TestSPNEGORoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blob := rapid.SliceOfN(rapid.Byte(), 0, 400)
		r := negTokenResp{
			State: rapid.SampledFrom([]byte{0, 1, 2, 3, stateAbsent}).Draw(t, "state"),
			Mech:  rapid.SampledFrom([]string{"", oidNTLMSSP}).Draw(t, "mech"),
			Token: blob.Draw(t, "token"), MIC: blob.Draw(t, "mic"),
		}
		got, err := decodeNegTokenResp(r.appendTo(nil))
		if err != nil || cmp.Diff(r, got) != "" {
			t.Fatalf("negTokenResp: %v %s", err, cmp.Diff(r, got))
		}
		i := negTokenInit{MechList: mechList(oidNTLMSSP), Mechs: []string{oidNTLMSSP}, Token: blob.Draw(t, "t"), MIC: blob.Draw(t, "m")}
		gotI, err := decodeNegTokenInit(i.appendTo(nil))
		if err != nil || cmp.Diff(i, gotI) != "" {
			t.Fatalf("negTokenInit: %v %s", err, cmp.Diff(i, gotI))
		}
	})
}

// The token that Windows and Samba servers send in NEGOTIATE, for a server with NTLM only.
//
// Source: [MS-SPNG 2.2.1]
func TestServerHintBytes(t *testing.T) {
	want := unhex(t, `60 48 06 06 2b0601050502 a0 3e 30 3c a0 0e 30 0c 06 0a 2b06010401823702020a
		a3 2a 30 28 a0 26 1b 24`)
	want = append(want, negHint...)
	if got := new(AcceptorConfig).ServerHint(); !bytes.Equal(got, want) {
		t.Errorf("hint = %x, want %x", got, want)
	}
}

// Source: [X.690 §10.1]
func TestDERIsStrict(t *testing.T) {
	for name, raw := range map[string]string{
		"indefinite length":        "3080 0000",
		"long form of short":       "308101 00",
		"leading zero in length":   "30820001 00",
		"length of four bytes":     "308400000001 00",
		"several tag bytes":        "3f8101 00",
		"content missing":          "3002 00",
		"length beyond the limit":  "3083ffffff 00",
		"only a tag":               "30",
		"length byte of long form": "3081",
	} {
		if _, _, _, err := derNext(unhex(t, raw)); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := derAppend(nil, derOctetString, make([]byte, 300))
	if got, err := derOnly(long, derOctetString); err != nil || len(got) != 300 {
		t.Errorf("300 bytes: %d, %v", len(got), err)
	}
}

// Source: [RFC 4178 §4.2.1]
func TestMalformedSPNEGOIsRefused(t *testing.T) {
	body := derAppend(nil, derContext, mechList(oidNTLMSSP))
	frame := func(oid string, body []byte) []byte {
		inner := append(derAppend(nil, derOID, []byte(oid)), derWrap(body, derContext, derSequence)...)
		return derAppend(nil, derApp0, inner)
	}
	for name, raw := range map[string][]byte{
		"another object id":    frame(oidNTLMSSP, body),
		"no mechanisms":        frame(oidSPNEGO, nil),
		"fields twice":         frame(oidSPNEGO, append(bytes.Clone(body), body...)),
		"field beyond the set": frame(oidSPNEGO, append(bytes.Clone(body), derAppend(nil, derContext+9, nil)...)),
		"bytes after the end":  append(frame(oidSPNEGO, body), 0),
		"too many mechanisms": frame(oidSPNEGO, derWrap(bytes.Repeat(derWrap([]byte(oidNTLMSSP), derOID), maxMechs+1),
			derContext, derSequence)),
	} {
		if _, err := decodeNegTokenInit(raw); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeNegTokenResp(derWrap([]byte{7}, derContext+1, derSequence, derContext, derEnumerated)); !errors.Is(err, ErrToken) {
		t.Errorf("state 7: %v", err)
	}
}

func TestAVPairsAreBounded(t *testing.T) {
	many := appendAVPairs(nil, make([]avPair, 0))
	for range maxAVPairs + 1 {
		many = append([]byte{9, 0, 0, 0}, many...)
	}
	if _, _, err := decodeAVPairs(many); !errors.Is(err, ErrToken) {
		t.Errorf("%d pairs: %v", maxAVPairs+1, err)
	}
}

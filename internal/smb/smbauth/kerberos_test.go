package smbauth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/ntstatus"
)

// fakeKerberos is both sides of Kerberos without its cryptography: the ticket is the name of the
// client.
type fakeKerberos struct {
	user   string
	mutual bool
	key    []byte
	end    time.Time
	seen   *KerberosRequest
}

func newFakeKerberos() *fakeKerberos {
	return &fakeKerberos{user: "Alice", mutual: true, key: bytes.Repeat([]byte{7}, 32), end: time.Unix(2e9, 0)}
}

func (f *fakeKerberos) Request() *KerberosRequest {
	pad := bytes.Repeat([]byte{'.'}, minKerberosCipher)
	return &KerberosRequest{
		Realm: "REALM", NameType: 2, Service: []string{"cifs", "host"},
		Ticket: KerberosCipher{Type: 18, KVNO: 300, Cipher: append([]byte(f.user), pad...)}, Authenticator: KerberosCipher{Type: 18, Cipher: pad},
	}
}

func (f *fakeKerberos) context(side string) *KerberosContext {
	mic := func(side string, data []byte) []byte {
		h := hmac.New(sha256.New, f.key)
		h.Write(append([]byte(side), data...))
		return h.Sum(nil)
	}
	other := map[string]string{"client": "server", "server": "client"}[side]
	return &KerberosContext{
		User: f.user, Realm: "REALM", Expires: f.end, SessionKey: f.key,
		MIC:    func(data []byte) []byte { return mic(side, data) },
		Verify: func(data, code []byte) bool { return hmac.Equal(mic(other, data), code) },
	}
}

func (f *fakeKerberos) Accept(q *KerberosRequest) (*KerberosContext, error) {
	f.seen = q
	if !bytes.HasPrefix(q.Ticket.Cipher, []byte(f.user)) {
		return nil, ErrTicket
	}
	c := f.context("server")
	if f.mutual {
		c.Reply = &KerberosCipher{Type: 18, Cipher: bytes.Repeat([]byte{9}, minKerberosCipher)}
	}
	return c, nil
}

func (f *fakeKerberos) Finish(reply KerberosCipher) (*KerberosContext, error) {
	if !bytes.Equal(reply.Cipher, bytes.Repeat([]byte{9}, minKerberosCipher)) {
		return nil, ErrTicket
	}
	return f.context("client"), nil
}

// acceptor returns a server with Kerberos and the user alice.
func (f *fakeKerberos) acceptor(require bool) *Acceptor {
	return NewAcceptor(AcceptorConfig{
		Lookup: lookupAlice, Kerberos: f, RequireKerberos: require,
		LookupPrincipal: func(realm, user string) (string, bool) {
			return "alice", realm == "REALM" && strings.EqualFold(user, "alice")
		},
	})
}

func (f *fakeKerberos) initiator() *Initiator { return NewInitiator(InitiatorConfig{Kerberos: f}) }

// Both sides have the session key, and the server has the canonical name and the end of the ticket.
//
// Source: [RFC 4178 §4.2], [MS-SPNG 3.2.5.2], [MS-SMB2 3.3.5.5.3]
func TestKerberosInOneRoundTrip(t *testing.T) {
	f := newFakeKerberos()
	i, a := f.initiator(), f.acceptor(true)
	if ierr, aerr := run(i, a, a.cfg.ServerHint(), nil); ierr != nil || aerr != nil {
		t.Fatal(ierr, aerr)
	}
	if a.User() != "alice" || a.Domain() != "REALM" || !a.Expires().Equal(f.end) || a.Mechanism() != "Kerberos" {
		t.Errorf("user %q of %q until %v by %s", a.User(), a.Domain(), a.Expires(), a.Mechanism())
	}
	if !bytes.Equal(i.SessionKey(), f.key) || !bytes.Equal(a.SessionKey(), f.key) || !i.Expires().Equal(f.end) {
		t.Errorf("session keys %x and %x, until %v", i.SessionKey(), a.SessionKey(), i.Expires())
	}
	if d := cmp.Diff(f.seen, f.Request()); d != "" {
		t.Error(d)
	}
	if _, _, err := a.Step(nil); !errors.Is(err, ErrToken) {
		t.Errorf("acceptor steps on after the end: %v", err)
	}
}

// The first mechanism of the client that the server offers is used, and no other one if that fails.
//
// Source: [RFC 4178 §4.2.1], [RFC 4178 §5]
func TestServerChoosesMechanism(t *testing.T) {
	const unknown = "\x2b\x06\x01\x04\x01\x82\x37\x02\x02\x1e" // NEGOEX
	for name, c := range map[string]struct {
		offers  []string
		require bool
		want    string // "" is refused
		mic     bool
	}{
		"Windows":                 {[]string{oidMSKerberos, oidKerberos, oidNTLMSSP}, false, oidMSKerberos, false},
		"MIT":                     {[]string{oidKerberos}, false, oidKerberos, false},
		"NEGOEX first":            {[]string{unknown, oidMSKerberos, oidKerberos, oidNTLMSSP}, false, oidMSKerberos, true},
		"NTLM first":              {[]string{oidNTLMSSP, oidKerberos}, false, oidNTLMSSP, false},
		"NTLM first, refused":     {[]string{oidNTLMSSP, oidKerberos}, true, oidKerberos, true},
		"NTLM alone":              {[]string{oidNTLMSSP}, false, oidNTLMSSP, false},
		"NTLM alone, refused":     {[]string{oidNTLMSSP}, true, "", false},
		"nothing that is offered": {[]string{unknown}, false, "", false},
	} {
		f := newFakeKerberos()
		a := f.acceptor(c.require)
		first := negTokenInit{MechList: mechList(c.offers...)} // without a token
		out, done, err := a.Step(first.appendTo(nil))
		if c.want == "" {
			if !errors.Is(err, ErrMechanism) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		resp, derr := decodeNegTokenResp(out)
		state := byte(stateAcceptIncomplete)
		if c.mic {
			state = stateRequestMIC
		}
		if err != nil || derr != nil || done || resp.Mech != c.want || resp.State != state {
			t.Errorf("%s: %+v, %v, %v", name, resp, err, derr)
		}
	}
	f := newFakeKerberos()
	a := f.acceptor(false)
	f.user = "mallory"
	forged := negTokenInit{MechList: mechList(oidKerberos, oidNTLMSSP), Token: f.Request().appendTo(nil)}
	f.user = "alice"
	if out, _, err := a.Step(forged.appendTo(nil)); !errors.Is(err, ErrTicket) || out != nil || ntstatus.Of(err) != ntstatus.LogonFailure {
		t.Errorf("invalid ticket: %x, %v", out, err)
	}
	ntlm := newNTLMInit()
	if _, _, err := a.Step(ntlm); err == nil {
		t.Error("the server goes on with NTLM after an invalid ticket")
	}
	if _, _, err := f.acceptor(true).Step(newPairNTLM().negotiate); !errors.Is(err, ErrMechanism) {
		t.Errorf("NTLM without SPNEGO, while Kerberos is required: %v", err)
	}
}

// newPairNTLM returns a client with NTLM after its first step, and newNTLMInit its first token.
func newPairNTLM() *Initiator {
	i, _ := newPair("alice", "wonderland")
	_, _, _ = i.Step(nil)
	return i
}

func newNTLMInit() []byte {
	i, _ := newPair("alice", "wonderland")
	b, _, _ := i.Step(nil)
	return b
}

// The codes over the list of mechanisms are compulsory if the client prefers another mechanism, and
// checked if they are there.
//
// Source: [RFC 4178 §5]
func TestKerberosWithCodesOverMechanisms(t *testing.T) {
	list := mechList("\x2b\x06\x01", oidKerberos)
	for name, c := range map[string]struct {
		mutual bool
		early  string // the code with the request
		late   string // the code after it
		ok     bool
	}{
		"after the reply":          {true, "", "right", true},
		"without a reply":          {false, "right", "", true},
		"wrong, after the reply":   {true, "", "wrong", false},
		"missing, after the reply": {true, "", "none", false},
		"wrong, with the request":  {false, "wrong", "", false},
		"that of the server":       {true, "", "mirror", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeKerberos()
			f.mutual = c.mutual
			a, client := f.acceptor(false), f.context("client")
			code := func(kind string) []byte {
				mic := client.MIC(list)
				switch kind {
				case "wrong":
					mic[3] ^= 1
				case "none", "":
					return nil
				case "mirror":
					mic = f.context("server").MIC(list)
				}
				return mic
			}
			init := negTokenInit{MechList: list}
			if _, _, err := a.Step(init.appendTo(nil)); err != nil {
				t.Fatal(err)
			}
			next := negTokenResp{State: stateAbsent, Token: f.Request().appendTo(nil), MIC: code(c.early)}
			out, done, err := a.Step(next.appendTo(nil))
			if c.late != "" {
				resp, derr := decodeNegTokenResp(out)
				if err != nil || derr != nil || done || !client.Verify(list, resp.MIC) || a.User() != "" {
					t.Fatalf("%+v, done %v, %v, %v", resp, done, err, derr)
				}
				last := negTokenResp{State: stateAbsent, MIC: code(c.late)}
				_, done, err = a.Step(last.appendTo(nil))
			}
			if c.ok != (err == nil && done && a.User() == "alice") || !c.ok && !errors.Is(err, ErrIntegrity) {
				t.Errorf("done %v, user %q, %v", done, a.User(), err)
			}
		})
	}
}

// A client with Kerberos refuses each answer that does not prove the server's identity.
//
// Source: [RFC 4178 §4.2.2], [RFC 4121 §4.1]
func TestClientRequiresProofOfServer(t *testing.T) {
	f := newFakeKerberos()
	reply := appendKerberosReply(nil, &KerberosCipher{Type: 18, Cipher: bytes.Repeat([]byte{9}, minKerberosCipher)})
	wrong := appendKerberosReply(nil, &KerberosCipher{Type: 18, Cipher: bytes.Repeat([]byte{8}, minKerberosCipher)})
	list := mechList(oidMSKerberos, oidKerberos)
	for name, c := range map[string]struct {
		in   negTokenResp
		want error
	}{
		"proof":                    {negTokenResp{State: stateAcceptCompleted, Mech: oidMSKerberos, Token: reply}, nil},
		"proof, other form of OID": {negTokenResp{State: stateAcceptCompleted, Mech: oidKerberos, Token: reply}, nil},
		"proof with a code":        {negTokenResp{State: stateAcceptCompleted, Token: reply, MIC: f.context("server").MIC(list)}, nil},
		"no proof":                 {negTokenResp{State: stateAcceptCompleted, Mech: oidKerberos}, ErrToken},
		"wrong proof":              {negTokenResp{State: stateAcceptCompleted, Token: wrong}, ErrTicket},
		"wrong code":               {negTokenResp{State: stateAcceptCompleted, Token: reply, MIC: f.context("client").MIC(list)}, ErrIntegrity},
		"NTLM":                     {negTokenResp{State: stateAcceptIncomplete, Mech: oidNTLMSSP, Token: reply}, ErrMechanism},
		"reject":                   {negTokenResp{State: stateReject, Token: reply}, ErrMechanism},
		"request for the code":     {negTokenResp{State: stateRequestMIC, Mech: oidKerberos, Token: reply}, ErrMechanism},
	} {
		i := f.initiator()
		if _, _, err := i.Step(nil); err != nil {
			t.Fatal(err)
		}
		_, done, err := i.Step(c.in.appendTo(nil))
		if !errors.Is(err, c.want) || done != (c.want == nil) {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
		if c.want != nil && i.SessionKey() != nil {
			t.Errorf("%s: a session key", name)
		}
	}
	if _, done, err := step2(f.initiator(), nil); done || err == nil {
		t.Errorf("SUCCESS without a token: %v, %v", done, err)
	}
	hint := serverHint(oidNTLMSSP)
	if out, _, err := f.initiator().Step(hint); !errors.Is(err, ErrMechanism) || out != nil {
		t.Errorf("server without Kerberos: %x, %v", out, err)
	}
	i := f.initiator()
	out, _, err := i.Step(nil)
	if err != nil || bytes.Contains(out, []byte(oidNTLMSSP)) {
		t.Errorf("the first token offers NTLM: %x, %v", out, err)
	}
}

func step2(i *Initiator, in []byte) ([]byte, bool, error) {
	_, _, _ = i.Step(nil)
	return i.Step(in)
}

// A token above the bound of its mechanism is refused. Without Kerberos the bound is lower.
func TestTokensAreBounded(t *testing.T) {
	f := newFakeKerberos()
	token := func(n int) []byte {
		q := f.Request()
		q.Ticket.Cipher = append(q.Ticket.Cipher, make([]byte, n)...)
		init := negTokenInit{MechList: mechList(oidKerberos), Token: q.appendTo(nil)}
		return init.appendTo(nil)
	}
	over := MaxKerberosToken - len(token(16000)) + 16000
	for n, ok := range map[int]bool{over: true, over + 1: false} {
		if _, _, err := f.acceptor(true).Step(token(n)); (err == nil) != ok {
			t.Errorf("a token of %d bytes: %v", len(token(n)), err)
		}
	}
	_, plain := newPair("", "")
	if _, _, err := plain.Step(make([]byte, MaxToken+1)); !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), "a token of") {
		t.Errorf("without Kerberos: %v", err)
	}
	long := negotiateMessage{Flags: requiredFlags}
	big := append(long.appendTo(nil), make([]byte, MaxToken)...)
	if _, _, err := f.acceptor(false).Step(big); !errors.Is(err, ErrToken) {
		t.Errorf("NTLM of %d bytes, which the server keeps: %v", len(big), err)
	}
	var mechs []string
	for k := range maxMechs - 1 {
		mechs = append(mechs, strings.Repeat("\x2b", 100)+fmt.Sprint(k))
	}
	init := negTokenInit{MechList: mechList(append(mechs, oidKerberos)...)}
	if _, _, err := f.acceptor(false).Step(init.appendTo(nil)); !errors.Is(err, ErrToken) {
		t.Errorf("a list of %d bytes, which the server keeps: %v", len(init.MechList), err)
	}
}

// Each prefix of a request, and each change of its structure, is refused or decodes to a request within
// the bounds.
//
// Source: [RFC 4120 §5.5.1]
func TestKerberosRequestsAreChecked(t *testing.T) {
	base := newFakeKerberos().Request()
	whole := base.appendTo(nil)
	if q, err := decodeKerberosRequest(whole); err != nil || cmp.Diff(q, base) != "" {
		t.Fatalf("%+v, %v", q, err)
	}
	for n := range whole {
		if _, err := decodeKerberosRequest(whole[:n]); !errors.Is(err, ErrToken) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for name, change := range map[string]func(*KerberosRequest){
		"long realm":       func(q *KerberosRequest) { q.Realm = strings.Repeat("R", maxKerberosName+1) },
		"long component":   func(q *KerberosRequest) { q.Service[1] = strings.Repeat("h", maxKerberosName+1) },
		"many components":  func(q *KerberosRequest) { q.Service = make([]string, maxKerberosComponents+1) },
		"no component":     func(q *KerberosRequest) { q.Service = nil },
		"short ticket":     func(q *KerberosRequest) { q.Ticket.Cipher = make([]byte, minKerberosCipher-1) },
		"no authenticator": func(q *KerberosRequest) { q.Authenticator.Cipher = nil },
	} {
		q := newFakeKerberos().Request()
		change(q)
		if _, err := decodeKerberosRequest(q.appendTo(nil)); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	options := bytes.Index(whole, []byte{derBitString, 5, 0, 0x20})
	session := bytes.Clone(whole)
	session[options+3] |= 0x40
	if _, err := decodeKerberosRequest(session); !errors.Is(err, ErrToken) {
		t.Errorf("key of user-to-user authentication: %v", err)
	}
	for n, want := range map[int64]string{0: "00", 127: "7f", 128: "0080", -1: "ff", -129: "ff7f", 1 << 31: "0080000000"} {
		b := derNumber(nil, derContext, n)
		if got := fmt.Sprintf("%x", b[4:]); got != want {
			t.Errorf("integer %d is %s", n, got)
		}
		c := derCursor{b: b}
		if got := c.integer(derContext); got != n || c.err != nil {
			t.Errorf("integer %d is read as %d, %v", n, got, c.err)
		}
	}
}

// AES with 256 bits uses the whole key of the authentication, and all else its first 16 bytes.
//
// Source: [MS-SMB2 3.1.4.2], [MS-SMB2 3.3.5.5.3]
func TestCiphersOf256BitsUseTheFullKey(t *testing.T) {
	long := bytes.Repeat([]byte{1, 2}, 16)
	short := DeriveKeys(Dialect311, AES128GCM, long[:16], [64]byte{})
	if got := DeriveKeys(Dialect311, AES128GCM, long, [64]byte{}); got != short {
		t.Error("AES-128 uses more than 16 bytes")
	}
	want := DeriveKeys(Dialect311, AES256GCM, long[:16], [64]byte{})
	got := DeriveKeys(Dialect311, AES256GCM, long, [64]byte{})
	if got.Signing != want.Signing || got.Application != want.Application {
		t.Error("signing and application keys use more than 16 bytes")
	}
	if got.ClientToServer == want.ClientToServer || got.ServerToClient == want.ServerToClient {
		t.Error("AES-256 uses 16 bytes only")
	}
}

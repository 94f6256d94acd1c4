package kerberos

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/types"

	"lwio/internal/smb/smbauth"
)

// Client and server have the same key, and accept the codes of each other, with each encryption type.
//
// Source: [RFC 4121 §2], [RFC 4121 §4.2.6.1], [RFC 4120 §3.2.4]
func TestClientAndServerAgreeOnKeys(t *testing.T) {
	d := newKDC(t)
	s := newServer(t, d, nil)
	for _, etype := range aesTypes {
		t.Run(fmt.Sprint(etype), func(t *testing.T) {
			x := d.begin(t, "alice", etype)
			got, err := s.Accept(x.Request())
			if err != nil {
				t.Fatal(err)
			}
			if got.User != "alice" || got.Realm != testRealm || !got.Expires.Equal(x.t.end) || got.Reply == nil {
				t.Errorf("context %+v", got)
			}
			own, err := x.Finish(*got.Reply)
			if err != nil {
				t.Fatal(err)
			}
			k, _ := cipherOf(etype)
			if !bytes.Equal(own.SessionKey, got.SessionKey) || len(own.SessionKey) != k.key {
				t.Errorf("keys %x and %x", own.SessionKey, got.SessionKey)
			}
			if bytes.Equal(own.SessionKey, x.auth.SubKey.KeyValue) || bytes.Equal(own.SessionKey, x.t.key.KeyValue) {
				t.Error("the server adds nothing to the key")
			}
			data := []byte("list of mechanisms")
			if !got.Verify(data, own.MIC(data)) || !own.Verify(data, got.MIC(data)) {
				t.Error("a code is refused")
			}
			if got.Verify(data, got.MIC(data)) || own.Verify(data[1:], got.MIC(data)) || own.Verify(data, nil) {
				t.Error("a wrong code is accepted")
			}
			for i, mic := 0, got.MIC(data); i < len(mic); i++ {
				mic[i] ^= 1
				if own.Verify(data, mic) {
					t.Errorf("a code with a change of byte %d is accepted", i)
				}
				mic[i] ^= 1
			}
		})
	}
}

// A client that asks for no reply has none. The key is its subkey, or the key of the ticket.
//
// Source: [RFC 4121 §2], [MS-SMB2 3.3.5.5.3]
func TestClientWithoutMutualAuthentication(t *testing.T) {
	d := newKDC(t)
	s := newServer(t, d, nil)
	for name, subkey := range map[string]bool{"subkey": true, "key of the ticket": false} {
		x := d.begin(t, "alice", aes256)
		x.auth.Cksum.Checksum[4+bindingSize] &^= gssMutual
		want := x.auth.SubKey.KeyValue
		if !subkey {
			x.auth.SubKey, want = types.EncryptionKey{}, x.t.key.KeyValue
		}
		x.seal(t)
		got, err := s.Accept(x.Request())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Reply != nil || !bytes.Equal(got.SessionKey, want) {
			t.Errorf("%s: reply %v, key %x, want %x", name, got.Reply, got.SessionKey, want)
		}
	}
}

// Requests of which one part is not valid are refused.
//
// Source: [RFC 4120 §3.2.3], [RFC 4121 §4.1.1]
func TestInvalidRequestsAreRefused(t *testing.T) {
	d := newKDC(t)
	d.add(t, "HTTP/"+testHost, testRealm, 1, aes256)
	d.add(t, "cifs/"+testHost, "OTHER.LWIO", 1, aes256)
	s := newServer(t, d, nil)
	for name, change := range map[string]func(*ticket){
		"ticket of another realm's client":        func(k *ticket) { k.content.CRealm = "OTHER.LWIO" },
		"realm in lower case":                     func(k *ticket) { k.content.CRealm = strings.ToLower(testRealm) },
		"service of another realm":                func(k *ticket) { k.realm, k.content.CRealm = "OTHER.LWIO", "OTHER.LWIO" },
		"client of the realm, service of another": func(k *ticket) { k.realm = "OTHER.LWIO" },
		"another service":                         func(k *ticket) { k.service = "HTTP/" + testHost },
		"expired":                                 func(k *ticket) { k.content.EndTime = time.Now().UTC().Add(-time.Second) },
		"not yet valid":                           func(k *ticket) { k.content.StartTime = time.Now().UTC().Add(6 * time.Minute) },
		"invalid flag":                            func(k *ticket) { types.SetFlag(&k.content.Flags, flags.Invalid) },
		"name of two components":                  func(k *ticket) { k.content.CName.NameString = []string{"alice", "admin"} },
		"empty name":                              func(k *ticket) { k.content.CName.NameString = []string{""} },
		"no name":                                 func(k *ticket) { k.content.CName.NameString = nil },
	} {
		t.Run(name, func(t *testing.T) {
			k := newTicket("alice", aes256, time.Now())
			change(k)
			refused(t, s, d.exchange(t, k).Request(), smbauth.ErrTicket)
		})
	}
	for name, c := range map[string]struct {
		change func(*exchange)
		want   error
	}{
		"other client":             {func(x *exchange) { x.auth.CName.NameString = []string{"bob"} }, smbauth.ErrTicket},
		"other realm":              {func(x *exchange) { x.auth.CRealm = "OTHER.LWIO" }, smbauth.ErrTicket},
		"client ahead":             {func(x *exchange) { x.auth.CTime = x.auth.CTime.Add(6 * time.Minute) }, smbauth.ErrSkew},
		"client behind":            {func(x *exchange) { x.auth.CTime = x.auth.CTime.Add(-6 * time.Minute) }, smbauth.ErrSkew},
		"microseconds above bound": {func(x *exchange) { x.auth.Cusec = 1e6 }, smbauth.ErrSkew},
		"checksum of another type": {func(x *exchange) { x.auth.Cksum.CksumType = 7 }, smbauth.ErrTicket},
		"checksum with other size": {func(x *exchange) { x.auth.Cksum.Checksum[0] = 17 }, smbauth.ErrTicket},
		"short checksum":           {func(x *exchange) { x.auth.Cksum.Checksum = x.auth.Cksum.Checksum[:23] }, smbauth.ErrTicket},
		"no checksum":              {func(x *exchange) { x.auth.Cksum = types.Checksum{} }, smbauth.ErrTicket},
		"style of DCE":             {func(x *exchange) { x.auth.Cksum.Checksum[21] |= gssDCEStyle >> 8 }, smbauth.ErrTicket},
		"subkey of a wrong length": {func(x *exchange) { x.auth.SubKey.KeyValue = x.auth.SubKey.KeyValue[1:] }, smbauth.ErrTicket},
		"subkey of RC4": {func(x *exchange) {
			x.auth.SubKey = types.EncryptionKey{KeyType: etypeID.RC4_HMAC, KeyValue: make([]byte, 16)}
		}, smbauth.ErrTicket},
		"key of another ticket": {func(x *exchange) { x.t.key = newKey(x.t.key) }, smbauth.ErrTicket},
	} {
		t.Run(name, func(t *testing.T) {
			x := d.begin(t, "alice", aes256)
			c.change(x)
			x.seal(t)
			refused(t, s, x.Request(), c.want)
		})
	}
	for name, change := range map[string]func(*smbauth.KerberosRequest){
		"unknown version of the key":      func(q *smbauth.KerberosRequest) { q.Ticket.KVNO = 2 },
		"unknown host":                    func(q *smbauth.KerberosRequest) { q.Service[1] = "other.test.lwio" },
		"service of one component":        func(q *smbauth.KerberosRequest) { q.Service = q.Service[:1] },
		"service of three components":     func(q *smbauth.KerberosRequest) { q.Service = append(q.Service, testRealm) },
		"type of the ticket":              func(q *smbauth.KerberosRequest) { q.Ticket.Type = etypeID.RC4_HMAC },
		"type of the authenticator":       func(q *smbauth.KerberosRequest) { q.Authenticator.Type = etypeID.RC4_HMAC },
		"short ticket":                    func(q *smbauth.KerberosRequest) { q.Ticket.Cipher = q.Ticket.Cipher[:confounder+12] },
		"short authenticator":             func(q *smbauth.KerberosRequest) { q.Authenticator.Cipher = q.Authenticator.Cipher[:confounder+12] },
		"empty ticket":                    func(q *smbauth.KerberosRequest) { q.Ticket.Cipher = nil },
		"authenticator in ticket's place": func(q *smbauth.KerberosRequest) { q.Ticket.Cipher = q.Authenticator.Cipher },
	} {
		t.Run(name, func(t *testing.T) {
			q := d.begin(t, "alice", aes256).Request()
			change(q)
			refused(t, s, q, smbauth.ErrTicket)
		})
	}
}

// refused checks that a request is refused with an error, and not by a panic.
func refused(t *testing.T, s *Server, q *smbauth.KerberosRequest, want error) {
	t.Helper()
	c, err := s.Accept(q)
	if c != nil || !errors.Is(err, want) {
		t.Fatalf("context %v, %v; want %v", c, err, want)
	}
	if strings.Contains(err.Error(), "panic") {
		t.Error(err)
	}
}

// A change of any byte of ticket, authenticator or reply is noticed.
//
// Source: [RFC 4120 §3.2.3], [RFC 4120 §3.2.5]
func TestModifiedPartsAreRefused(t *testing.T) {
	d := newKDC(t)
	s := newServer(t, d, nil)
	for name, part := range map[string]func(*smbauth.KerberosRequest) []byte{
		"ticket":        func(q *smbauth.KerberosRequest) []byte { return q.Ticket.Cipher },
		"authenticator": func(q *smbauth.KerberosRequest) []byte { return q.Authenticator.Cipher },
	} {
		q := d.begin(t, "alice", aes256).Request()
		for i, b := 0, part(q); i < len(b); i++ {
			b[i] ^= 0x10
			if _, err := s.Accept(q); !errors.Is(err, smbauth.ErrTicket) {
				t.Errorf("%s: byte %d: %v", name, i, err)
			}
			b[i] ^= 0x10
		}
		if _, err := s.Accept(q); err != nil {
			t.Errorf("%s unchanged: %v", name, err)
		}
	}
	x, other := d.begin(t, "alice", aes256), d.begin(t, "alice", aes256)
	c, err := s.Accept(x.Request())
	if err != nil {
		t.Fatal(err)
	}
	for i, b := 0, c.Reply.Cipher; i < len(b); i++ {
		b[i] ^= 0x10
		if _, err := x.Finish(*c.Reply); !errors.Is(err, smbauth.ErrTicket) {
			t.Errorf("reply: byte %d: %v", i, err)
		}
		b[i] ^= 0x10
	}
	if _, err := other.Finish(*c.Reply); !errors.Is(err, smbauth.ErrTicket) {
		t.Errorf("reply to another request: %v", err)
	}
	other.t.key = x.t.key
	other.auth.Cusec = (x.auth.Cusec + 1) % 1e6
	if _, err := other.Finish(*c.Reply); !errors.Is(err, smbauth.ErrTicket) {
		t.Errorf("reply to an earlier request with the same ticket: %v", err)
	}
	if _, err := x.Finish(*c.Reply); err != nil {
		t.Error(err)
	}
}

// An authenticator is accepted once. Other authenticators with the same ticket are accepted.
//
// Source: [RFC 4120 §3.2.3]
func TestReplayedRequestIsRefused(t *testing.T) {
	d := newKDC(t)
	s := newServer(t, d, nil)
	x := d.begin(t, "alice", aes256)
	if _, err := s.Accept(x.Request()); err != nil {
		t.Fatal(err)
	}
	refused(t, s, x.Request(), smbauth.ErrTicket)
	again, err := newExchange(x.t, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept(again.Request()); err != nil {
		t.Error(err)
	}
	refused(t, s, x.Request(), smbauth.ErrTicket)
}

// An authenticator is remembered as long as it can be valid. The number of them has a bound for all and
// for each principal.
//
// Source: [RFC 4120 §3.2.3]
func TestReplaysAreBounded(t *testing.T) {
	const lifetime = 10 * time.Minute
	begin := time.Unix(1_700_000_000, 0)
	for _, age := range []time.Duration{0, lifetime - 1, lifetime} {
		r := newReplays(lifetime)
		r.add(begin, "x", []byte("first"))
		at := begin.Add(lifetime - 1) // late in the first generation
		if got := r.add(at, "x", []byte("a")); got != replayNew {
			t.Fatalf("new authenticator: %v", got)
		}
		if got := r.add(at.Add(age), "x", []byte("a")); got != replaySeen {
			t.Errorf("after %v: %v", age, got)
		}
		if r.add(at.Add(age+2*lifetime), "x", []byte("b")); len(r.old.seen) != 0 || len(r.young.seen) != 1 {
			t.Errorf("%d and %d entries are left", len(r.old.seen), len(r.young.seen))
		}
	}
	r := newReplays(lifetime)
	fill := func(principal string, n int) {
		for i := range n {
			if got := r.add(begin, principal, fmt.Appendf(nil, "%s %d", principal, i)); got != replayNew {
				t.Fatalf("%s: entry %d: %v", principal, i, got)
			}
		}
	}
	fill("mallory", maxReplays-maxReplays/4)
	if got := r.add(begin, "mallory", []byte("one more")); got != replayFull {
		t.Errorf("above the bound of a principal: %v", got)
	}
	fill("alice", maxReplays/4)
	if got := r.add(begin, "bob", []byte("one more")); got != replayFull {
		t.Errorf("above the bound: %v", got)
	}
	if got := r.add(begin, "mallory", []byte("mallory 0")); got != replaySeen {
		t.Errorf("replay while full: %v", got)
	}
	if got := r.add(begin.Add(lifetime), "bob", []byte("one more")); got != replayNew {
		t.Errorf("in the next generation: %v", got)
	}
}

// A ticket under an older version of the key is accepted while the keytab has it. A ticket
// without a version can have any.
//
// Source: [RFC 4120 §5.2.9] (kvno)
func TestVersionsOfKeys(t *testing.T) {
	d := newKDC(t)
	old := newServer(t, d, nil)
	d.add(t, "cifs/"+testHost, testRealm, 2, aes256)
	s := newServer(t, d, nil)
	for _, c := range []struct{ kvno, named int }{{1, 1}, {2, 2}, {1, 0}, {2, 0}} {
		x := d.exchange(t, func() *ticket { k := newTicket("alice", aes256, time.Now()); k.kvno = c.kvno; return k }())
		x.request.Ticket.KVNO = uint32(c.named)
		if _, err := s.Accept(x.Request()); err != nil {
			t.Errorf("key %d, named %d: %v", c.kvno, c.named, err)
		}
		_, err := old.Accept(x.Request())
		if want := c.kvno == 1; (err == nil) != want {
			t.Errorf("keytab without version 2: key %d, named %d: %v", c.kvno, c.named, err)
		}
	}
	if err := old.SetKeytab(d.keytab(t)); err != nil {
		t.Fatal(err)
	}
	k := newTicket("alice", aes256, time.Now())
	k.kvno = 2
	if _, err := old.Accept(d.exchange(t, k).Request()); err != nil {
		t.Errorf("after SetKeytab: %v", err)
	}
}

// A keytab must have a key that can be used. Errors have no content of it.
func TestKeytabWithoutUsableKeyIsRefused(t *testing.T) {
	with := func(entries ...string) []byte {
		d := newKDC(t)
		d.kt.Entries = nil
		for _, e := range entries {
			name, realm, _ := strings.Cut(e, "@")
			d.add(t, name, realm, 1, aes256)
		}
		return d.keytab(t)
	}
	weak := newKDC(t)
	weak.kt.Entries = nil
	weak.add(t, "cifs/"+testHost, testRealm, 1, etypeID.RC4_HMAC)
	whole := with("cifs/a@A")
	for name, c := range map[string]struct {
		keytab []byte
		realm  string
		want   string // "" for a valid keytab
	}{
		"one realm":               {whole, "", ""},
		"one realm, named":        {whole, "A", ""},
		"two realms, named":       {with("cifs/a@A", "cifs/a@B"), "B", ""},
		"two realms":              {with("cifs/a@A", "cifs/a@B"), "", "several realms"},
		"another realm":           {whole, "B", "no AES key"},
		"another service":         {with("HTTP/a@A", "host/a@A"), "", "no AES key"},
		"service without a host":  {with("cifs@A"), "", "no AES key"},
		"key of RC4":              {weak.keytab(t), "", "no AES key"},
		"no keys":                 {with(), "", "keytab"},
		"empty file":              {nil, "", "not a keytab"},
		"text":                    {[]byte("alice:secret\n"), "", "not a keytab"},
		"a length below zero":     {[]byte{5, 2, 0x80, 0, 0, 0}, "", "keytab"},
		"an entry of three bytes": {[]byte{5, 2, 0, 0, 0, 3, 's', 'e', 'c'}, "", "not a keytab"},
	} {
		s, err := NewServer(ServerConfig{Keytab: c.keytab, Realm: c.realm})
		switch {
		case c.want == "" && (err != nil || s.Realm() == ""):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sec")):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for n := range whole {
		if _, err := NewServer(ServerConfig{Keytab: whole[:n]}); err == nil && n < len(whole)-4 {
			t.Errorf("the first %d of %d bytes are a keytab", n, len(whole))
		}
	}
}

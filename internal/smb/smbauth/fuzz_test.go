package smbauth

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func addSeeds(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.raw)
	}
}

// A decoded message is encoded to bytes that decode to the same message.
func FuzzNTLM(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeNegotiate(b); err == nil {
			again := m.appendTo(nil)
			if m2, err := decodeNegotiate(again); err != nil || !bytes.Equal(m2.appendTo(nil), again) {
				t.Errorf("negotiate %x: %v", b, err)
			}
		}
		if m, err := decodeChallenge(b); err == nil {
			again := m.appendTo(nil)
			if m2, err := decodeChallenge(again); err != nil || !bytes.Equal(m2.appendTo(nil), again) {
				t.Errorf("challenge %x: %v", b, err)
			}
		}
		if m, err := decodeAuthenticate(b); err == nil {
			again := m.appendTo(nil)
			if m2, err := decodeAuthenticate(again); err != nil || !bytes.Equal(m2.appendTo(nil), again) {
				t.Errorf("authenticate %x: %v", b, err)
			}
		}
		if pairs, rest, err := decodeAVPairs(b); err == nil {
			if again := append(appendAVPairs(nil, pairs), rest...); !bytes.Equal(again, b) {
				t.Errorf("pairs %x encode to %x", b, again)
			}
		}
	})
}

func FuzzSPNEGO(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeNegTokenInit(b); err == nil {
			if _, err := decodeNegTokenInit(m.appendTo(nil)); err != nil {
				t.Errorf("negTokenInit %x: %v", b, err)
			}
		}
		if m, err := decodeNegTokenResp(b); err == nil {
			if _, err := decodeNegTokenResp(m.appendTo(nil)); err != nil {
				t.Errorf("negTokenResp %x: %v", b, err)
			}
		}
	})
}

// No bytes of a peer without the password, in either step, log on or cause a panic.
func FuzzAcceptor(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.raw, m.raw)
	}
	i, _ := newPair("alice", "wonderland")
	first, _, _ := i.Step(nil)
	f.Add(first, first)
	f.Add(i.negotiate, first)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		_, a := newPair("", "")
		for _, tok := range [][]byte{one, two, two} {
			if _, done, err := a.Step(tok); done {
				t.Fatal("a peer without the password logged on")
			} else if err != nil {
				return
			}
		}
	})
}

// No bytes of a server cause a panic of the client.
func FuzzInitiator(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(m.raw, m.raw)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		i := NewInitiator(InitiatorConfig{User: "alice", NTHash: &[16]byte{}})
		if _, _, err := i.Step(nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := i.Step(one); err == nil {
			_, _, _ = i.Step(two)
		}
	})
}

// A decoded request or reply of Kerberos is within its bounds, and is encoded to bytes that decode to the
// same.
func FuzzKerberos(f *testing.F) {
	q := newFakeKerberos().Request()
	f.Add(q.appendTo(nil))
	f.Add(appendKerberosReply(nil, &q.Ticket))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := decodeKerberosRequest(b); err == nil {
			if n := len(q.Service); n == 0 || n > maxKerberosComponents || min(len(q.Ticket.Cipher), len(q.Authenticator.Cipher)) < minKerberosCipher {
				t.Errorf("request out of bounds: %+v", q)
			}
			if again, err := decodeKerberosRequest(q.appendTo(nil)); err != nil || !cmp.Equal(q, again) {
				t.Errorf("request %+v: %+v, %v", q, again, err)
			}
		}
		if c, err := decodeKerberosReply(b); err == nil {
			if again, err := decodeKerberosReply(appendKerberosReply(nil, &c)); err != nil || !cmp.Equal(c, again) {
				t.Errorf("reply %+v: %+v, %v", c, again, err)
			}
		}
	})
}

package kerberos

import (
	"testing"
	"time"

	"lwio/internal/smb/smbauth"
)

func credentialsOf(user, host string) smbauth.KerberosCredentials {
	return smbauth.KerberosCredentials{User: user, Host: host}
}

// No content of ticket, authenticator or reply causes a panic, in parts that are encrypted with the right
// key. The library decodes these.
func FuzzContents(f *testing.F) {
	d := newKDC(f)
	s := newServer(f, d, nil)
	key := d.key(f, "cifs/"+testHost, testRealm, 1, aes256)
	x := d.begin(f, "alice", aes256)
	open := func(c smbauth.KerberosCipher, usage uint32) []byte {
		k := key
		if usage != usageTicket {
			k = x.t.key
		}
		b, err := decrypt(c, k, usage)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	c, err := s.Accept(x.Request())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(open(x.request.Ticket, usageTicket), open(x.request.Authenticator, usageAuthenticator), open(*c.Reply, usageReply))
	f.Fuzz(func(t *testing.T, ticket, authenticator, reply []byte) {
		seal := func(plain []byte, usage uint32) smbauth.KerberosCipher {
			k := key
			if usage != usageTicket {
				k = x.t.key
			}
			c, err := encrypt(plain, k, usage)
			if err != nil { // the input chose a key of no known kind
				return smbauth.KerberosCipher{}
			}
			return c
		}
		q := *x.Request()
		r := request{server: s, q: &q, now: time.Now()} // without guard, which would hide a panic
		if len(ticket) > 0 {
			q.Ticket = seal(ticket, usageTicket)
		}
		if err := r.openTicket(); err != nil {
			r.ticket.Key = x.t.key
		}
		if len(authenticator) > 0 {
			q.Authenticator = seal(authenticator, usageAuthenticator)
		}
		if r.openAuthenticator() == nil && len(r.ticket.CName.NameString) > 0 {
			_, _ = r.context()
		}
		if len(reply) > 0 {
			if c, err := x.Finish(seal(reply, usageReply)); err == nil {
				c.Verify(nil, c.MIC(nil))
			}
		}
	})
}

package smbserver

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// fakeTickets is both sides of Kerberos without its cryptography.
type fakeTickets struct {
	mu   sync.Mutex
	user string
	end  time.Time
	size int // of the ticket, in bytes
}

var fakeKey = bytes.Repeat([]byte{5}, 32)

func (f *fakeTickets) context() *smbauth.KerberosContext {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &smbauth.KerberosContext{
		User: f.user, Realm: "REALM", Expires: f.end, SessionKey: fakeKey,
		Reply: &smbauth.KerberosCipher{Type: 18, Cipher: make([]byte, 64)},
	}
}

// until sets the end of the tickets from now on.
func (f *fakeTickets) until(end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = end
}

func (f *fakeTickets) Accept(*smbauth.KerberosRequest) (*smbauth.KerberosContext, error) {
	return f.context(), nil
}

func (f *fakeTickets) Finish(smbauth.KerberosCipher) (*smbauth.KerberosContext, error) {
	return f.context(), nil
}

func (f *fakeTickets) Request() *smbauth.KerberosRequest {
	return &smbauth.KerberosRequest{
		Realm: "REALM", Service: []string{"cifs", "host"},
		Ticket:        smbauth.KerberosCipher{Type: 18, Cipher: make([]byte, f.size)},
		Authenticator: smbauth.KerberosCipher{Type: 18, Cipher: make([]byte, 64)},
	}
}

// logon runs a session set-up with a ticket.
func (f *fakeTickets) logon(c *raw) reply {
	return c.setupBy(smbauth.NewInitiator(smbauth.InitiatorConfig{Kerberos: f}), 0)
}

// kerberosServer starts a server with tickets for the user of the tests.
func kerberosServer(t testing.TB, change func(*Config)) (f *fakeTickets, addr string) {
	t.Helper()
	f = &fakeTickets{user: strings.ToUpper(testUser), size: 64, end: time.Now().Add(time.Hour)}
	_, addr, _ = testServer(t, func(c *Config) {
		c.Kerberos, c.RequireKerberos = f, true
		if change != nil {
			change(c)
		}
	})
	return f, addr
}

// After the end of its ticket a session serves only requests that free resources, until the client has
// authenticated again. Keys and opens stay.
//
// Source: [MS-SMB2 3.3.5.2.9], [MS-SMB2 3.3.5.5.2]
func TestExpiredSessionWaitsForRenewal(t *testing.T) {
	f, addr := kerberosServer(t, nil)
	f.until(time.Now().Add(-time.Second))
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	c.want(ntstatus.NetworkSessionExpired, cmdTreeConnect, connectBody("data"))
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	f.until(time.Now().Add(time.Hour))
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatalf("renewal: %v", r.status)
	}
	c.mustConnect("data")
	id := c.mustCreate(rw("f"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("content")))
	f.until(time.Now().Add(-time.Second))
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatalf("renewal with an older ticket: %v", r.status)
	}
	c.want(ntstatus.NetworkSessionExpired, cmdRead, readBody(id, 0, 7, 0))
	c.want(ntstatus.NetworkSessionExpired, cmdCreate, rw("g").body())
	f.until(time.Now().Add(time.Hour))
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatalf("renewal: %v", r.status)
	}
	c.want(ntstatus.Success, cmdRead, readBody(id, 0, 7, 0))
	f.until(time.Now().Add(-time.Second))
	f.logon(c)
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
}

// A session ends, with its RDMA connections, if the client does not authenticate again in time.
//
// Source: [MS-SMB2 3.3.1.8] (Session.ExpirationTime)
func TestExpiredSessionEndsWithoutRenewal(t *testing.T) {
	f, addr := kerberosServer(t, func(c *Config) { c.RenewalTime = 1 })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	f.until(time.Now())
	f.logon(c)
	for end := time.Now().Add(time.Minute); c.call(cmdEcho, []byte{4, 0, 0, 0}).status != ntstatus.UserSessionDeleted; {
		if time.Now().After(end) {
			t.Fatal("the session lives after the end of its ticket")
		}
	}
}

// Commands that an expired session refuses are all that use a file or a share.
//
// Source: [MS-SMB2 3.3.5.2.9]
func TestCommandsOfExpiredSessions(t *testing.T) {
	for code := range commands {
		c := smbwire.Command(code)
		want := c == smbwire.CommandSessionSetup || c == smbwire.CommandLogoff || c == smbwire.CommandClose || c == smbwire.CommandLock || c == smbwire.CommandEcho
		if servedAfterExpiry(c) != want {
			t.Errorf("%v: %t", c, !want)
		}
	}
}

// The user of a principal has its canonical name; a principal that is no user is refused, and so is NTLM.
//
// Source: [MS-SMB2 3.3.5.5.3]
func TestPrincipalsAreUsers(t *testing.T) {
	f, addr := kerberosServer(t, nil)
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	f.user = "stranger"
	other := dial(t, addr)
	other.mustNegotiate(0x0311)
	if r := f.logon(other); r.status != ntstatus.LogonFailure {
		t.Errorf("a principal that is no user: %v", r.status)
	}
	other.session = 0
	if r := other.setup(testUser, testPassword, 0); r.status != ntstatus.InvalidParameter {
		t.Errorf("NTLM: %v", r.status)
	}
}

// A server with a keytab takes tickets up to the bound from a new connection, and a server without takes
// no such tokens.
func TestLongTicketsOfNewConnections(t *testing.T) {
	f, addr := kerberosServer(t, nil)
	f.size = smbauth.MaxKerberosToken - 400
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Errorf("a ticket of %d bytes: %v", f.size, r.status)
	}
	_, plain, _ := testServer(t, nil)
	for _, size := range []int{smbauth.MaxToken, f.size} {
		f.size = size
		c = dial(t, plain)
		c.mustNegotiate(0x0311)
		if r := f.logon(c); r.status != ntstatus.InvalidParameter {
			t.Errorf("a ticket of %d bytes, without a keytab: %v", size, r.status)
		}
	}
}

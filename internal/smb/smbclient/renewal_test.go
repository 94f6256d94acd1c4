package smbclient

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbserver"
	"lwio/internal/smb/smbwire"
)

// tickets is both sides of Kerberos without its cryptography. A test may change it at any time.
type tickets struct {
	mu     sync.Mutex
	end    time.Time     // of the tickets
	life   time.Duration // of the tickets from now on, if it is not zero
	failed error         // of Begin
	begun  int
}

func (k *tickets) change(f func(k *tickets)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k)
}

// count returns the number of logons and renewals.
func (k *tickets) count() (n int) {
	k.change(func(k *tickets) { n = k.begun })
	return n
}

func (k *tickets) Begin(context.Context, smbauth.KerberosCredentials) (smbauth.KerberosExchange, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun++
	if k.life != 0 {
		k.end = time.Now().Add(k.life)
	}
	return ticketExchange{k}, k.failed
}

func (k *tickets) Accept(*smbauth.KerberosRequest) (*smbauth.KerberosContext, error) {
	return ticketExchange{k}.Finish(smbauth.KerberosCipher{})
}

type ticketExchange struct{ k *tickets }

func (x ticketExchange) Finish(smbauth.KerberosCipher) (*smbauth.KerberosContext, error) {
	x.k.mu.Lock()
	defer x.k.mu.Unlock()
	return &smbauth.KerberosContext{
		User: testUser, Realm: "REALM", Expires: x.k.end, SessionKey: bytes.Repeat([]byte{5}, 32),
		Reply: &smbauth.KerberosCipher{Type: 18, Cipher: make([]byte, 64)},
	}, nil
}

func (ticketExchange) Request() *smbauth.KerberosRequest {
	sealed := smbauth.KerberosCipher{Type: 18, Cipher: make([]byte, 64)}
	return &smbauth.KerberosRequest{Realm: "REALM", Service: []string{"cifs", "host"}, Ticket: sealed, Authenticator: sealed}
}

// expire lets the authentication of a session end, and the tickets of the next renewals last an hour.
func (k *tickets) expire(t *testing.T, s *Session) {
	t.Helper()
	k.change(func(k *tickets) { k.end = time.Now().Add(-time.Second) })
	if done := s.conn.renewal.ask(s.conn.renewal.epoch.Load()); done != nil {
		<-done
	}
	k.change(func(k *tickets) { k.end = time.Now().Add(time.Hour) })
}

// Each operation on an expired session authenticates again and succeeds, with the keys and the opens of
// the session as before.
//
// Source: [MS-SMB2 3.2.5.1.6], [MS-SMB2 3.3.5.2.9]
func TestOperationsRenewExpiredSession(t *testing.T) {
	for name, encryption := range map[string]smbserver.Encryption{"signed": smbserver.EncryptionOffered, "encrypted": smbserver.EncryptionRequired} {
		t.Run(name, func(t *testing.T) {
			k := &tickets{end: time.Now().Add(time.Hour)}
			addr, _ := startServer(t, func(c *smbserver.Config) {
				c.Kerberos, c.RequireKerberos, c.Encryption = k, true, encryption
			})
			s := connect(t, addr, func(c *Config) { c.Kerberos = k })
			tree, err := s.TreeConnect(t.Context(), "data")
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, tree, readWrite("file"))
			pipe, err := s.OpenPipe(t.Context(), "reverse")
			if err != nil {
				t.Fatal(err)
			}
			content := bytes.Repeat([]byte("content "), 1<<20)
			got := make([]byte, len(content))
			for _, op := range renewedOperations(tree, f, pipe, content, got) {
				k.expire(t, s)
				before := k.count()
				if err := op.do(t.Context()); err != nil {
					t.Errorf("%s: %v", op.name, err)
				}
				if k.count() == before {
					t.Errorf("%s does not renew the session", op.name)
				}
			}
			if !bytes.Equal(got, content) {
				t.Error("the content has changed")
			}
		})
	}
}

type operation struct {
	name string
	do   func(ctx context.Context) error
}

func renewedOperations(tree *Tree, f *File, pipe *Pipe, content, got []byte) []operation {
	create := func(name string, key bool) func(context.Context) error {
		return func(ctx context.Context) error {
			q := readWrite(name)
			q.ResumeKey = key
			f, err := tree.Create(ctx, q)
			if err != nil {
				return err
			}
			_, err = f.ResumeKey(ctx)
			return errors.Join(err, f.Close(ctx))
		}
	}
	list := func(ctx context.Context) error {
		dir, err := tree.Create(ctx, CreateRequest{Access: 0x100081, Share: shareAll, Disposition: dispositionOpen, Options: optionDirectory})
		if err != nil {
			return err
		}
		for _, err := range dir.ReadDir(ctx, "") {
			if err != nil {
				return err
			}
		}
		return dir.Close(ctx)
	}
	return []operation{
		{"tree connect", func(ctx context.Context) error {
			t, err := tree.s.TreeConnect(ctx, "data")
			if err != nil {
				return err
			}
			return t.Disconnect(ctx)
		}},
		{"create", create("a", false)},
		{"create with key", create("b", true)},
		{"mkdir", func(ctx context.Context) error { return tree.Mkdir(ctx, "dir") }},
		{"stat", func(ctx context.Context) error { _, err := tree.Stat(ctx, "dir"); return err }},
		{"rename", func(ctx context.Context) error { return tree.Rename(ctx, "dir", "other", false) }},
		{"remove", func(ctx context.Context) error { return tree.Remove(ctx, "other") }},
		{"write", func(ctx context.Context) error { _, err := f.WriteAt(ctx, content, 0); return err }},
		{"read", func(ctx context.Context) error { _, err := f.ReadAt(ctx, got, 0); return err }},
		{"set size", func(ctx context.Context) error { return f.SetSize(ctx, 10) }},
		{"file information", func(ctx context.Context) error { _, err := f.Stat(ctx); return err }},
		{"flush", f.Flush},
		{"list", list},
		{"pipe", func(ctx context.Context) error { _, err := pipe.Transact(ctx, []byte("abc"), 10); return err }},
	}
}

// A server that refuses the renewal has ended the session; so has the client.
//
// Source: [MS-SMB2 3.2.5.1.6]
func TestRefusedRenewalEndsSession(t *testing.T) {
	k := &tickets{end: time.Now().Add(-time.Second)}
	var mu sync.Mutex
	known := true
	addr, _ := startServer(t, func(c *smbserver.Config) {
		c.Kerberos, c.RequireKerberos, c.FailureDelay = k, true, 1
		c.Lookup = func(domain, user string) (string, [16]byte, bool) {
			mu.Lock()
			defer mu.Unlock()
			name, hash, ok := lookup(domain, user)
			return name, hash, ok && known
		}
	})
	s := connect(t, addr, func(c *Config) { c.Kerberos = k })
	mu.Lock()
	known = false
	mu.Unlock()
	_, err := s.TreeConnect(t.Context(), "data")
	if !errors.Is(err, net.ErrClosed) || !errors.Is(err, ntstatus.LogonFailure) {
		t.Errorf("%v", err)
	}
	if err := s.Err(); !errors.Is(err, ntstatus.LogonFailure) {
		t.Errorf("the session: %v", err)
	}
}

// fakeRealm lets a fake server accept tickets.
func fakeRealm(k *tickets) func(*fake) {
	return func(f *fake) {
		f.auth = smbauth.AcceptorConfig{
			Kerberos: k, RequireKerberos: true,
			LookupPrincipal: func(_, user string) (string, bool) { return user, true },
		}
	}
}

// kerberosSession opens a session with a fake server that accepts tickets.
func kerberosSession(t *testing.T, k *tickets, change func(*fake)) (*fake, *Session) {
	t.Helper()
	f, client := newFake(t, func(f *fake) {
		fakeRealm(k)(f)
		if change != nil {
			change(f)
		}
		f.negotiate = func(r *smbwire.NegotiateResponse) { r.SecurityBuffer = f.auth.ServerHint() }
	})
	s, err := f.logon(client, func(c *Config) { c.Kerberos = k })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return f, s
}

// A session without requests is authenticated again before the end of its ticket: 5 minutes, or in the
// last quarter of a shorter ticket.
func TestSessionIsRenewedBeforeItsEnd(t *testing.T) {
	for life, at := range map[time.Duration]time.Duration{10 * time.Hour: 10*time.Hour - 5*time.Minute, 8 * time.Second: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			k := &tickets{life: life}
			_, s := kerberosSession(t, k, nil)
			for n := 1; n < 4; n++ {
				time.Sleep(at - time.Second)
				synctest.Wait()
				if got := k.count(); got != n {
					t.Errorf("%v: %d authentications too early, want %d", life, got, n)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := k.count(); got != n+1 || s.Err() != nil {
					t.Errorf("%v: %d authentications, want %d, %v", life, got, n+1, s.Err())
				}
			}
		})
	}
}

// A renewal that fails, or that gets a ticket that ends no later, is repeated, also after the end. The
// session stays until a request needs the renewal.
func TestRenewalWithoutEffectIsRepeated(t *testing.T) {
	errNoTicket := errors.New("no ticket")
	for _, failed := range []error{errNoTicket, nil} {
		synctest.Test(t, func(t *testing.T) {
			k := &tickets{end: time.Now().Add(time.Hour), failed: nil}
			expired := false
			_, s := kerberosSession(t, k, func(f *fake) {
				f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
					if h.Command == smbwire.CommandEcho && expired {
						f.reply(h, ntstatus.NetworkSessionExpired, &smbwire.ErrorResponse{})
					}
					return h.Command == smbwire.CommandEcho && expired
				}
			})
			k.change(func(k *tickets) { k.failed = failed })
			time.Sleep(time.Hour - time.Second)
			synctest.Wait()
			early := k.count()
			if early < 5 {
				t.Errorf("%v: %d authentications before the end", failed, early)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if k.count() == early || s.Err() != nil {
				t.Errorf("%v: %d authentications after the end, %v", failed, k.count(), s.Err())
			}
			expired = true
			if err := echo(t.Context(), s); !errors.Is(err, net.ErrClosed) || failed != nil && !errors.Is(err, failed) {
				t.Errorf("%v: a request after the end: %v", failed, err)
			}
			if failed != nil && s.Err() == nil {
				t.Error("the session stays without an authentication")
			}
		})
	}
}

// expire lets a fake server refuse ECHO until the client has authenticated again.
func expire(f *fake) {
	renewed := false
	f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
		renewed = renewed || h.Command == smbwire.CommandSessionSetup && f.signer != nil
		if h.Command != smbwire.CommandEcho || renewed {
			return false
		}
		f.reply(h, ntstatus.NetworkSessionExpired, &smbwire.ErrorResponse{})
		return true
	}
}

// Requests that the server refuses before and after a renewal, and that were all sent before it, wait for
// this one renewal.
func TestRefusedRequestsShareOneRenewal(t *testing.T) {
	const requests = 20
	synctest.Test(t, func(t *testing.T) {
		k := &tickets{end: time.Now().Add(time.Hour)}
		var held []smbwire.Header
		refuse := func(f *fake, list []smbwire.Header) {
			for _, h := range list {
				f.reply(h, ntstatus.NetworkSessionExpired, &smbwire.ErrorResponse{})
			}
		}
		f, s := kerberosSession(t, k, func(f *fake) {
			f.on = func(f *fake, h smbwire.Header, body []byte) bool {
				switch {
				case h.Command == smbwire.CommandEcho && len(held) < requests:
					if held = append(held, h); len(held) == requests {
						refuse(f, held[:requests/2])
					}
				case h.Command == smbwire.CommandSessionSetup && len(held) == requests:
					f.logged(h, append(make([]byte, smbwire.HeaderSize), body...))
					synctest.Wait() // until the renewal is complete
					refuse(f, held[requests/2:])
				default:
					return false
				}
				return true
			}
		})
		var all sync.WaitGroup
		for range requests {
			all.Go(func() {
				if err := echo(t.Context(), s); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if k.count() != 2 || f.count(smbwire.CommandSessionSetup) != 2 || f.count(smbwire.CommandEcho) != 2*requests {
			t.Errorf("%d authentications, %d requests", k.count(), f.count(smbwire.CommandEcho))
		}
	})
}

// A session by NTLM has no end; a server that asks for a new authentication gets it.
func TestExpiredNTLMSessionIsRenewed(t *testing.T) {
	f, client := newFake(t, expire)
	s, err := f.logon(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := echo(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := f.count(smbwire.CommandSessionSetup); n != 4 {
		t.Errorf("%d requests to set up the session", n)
	}
}

// A server that reports the end of the authentication in response to each request ends the request, the
// logon or the session. No call waits for ever.
func TestServerThatAlwaysReportsTheEndOfTheSession(t *testing.T) {
	for command, want := range map[smbwire.Command]error{
		smbwire.CommandNegotiate:    ntstatus.NetworkSessionExpired,
		smbwire.CommandSessionSetup: ntstatus.NetworkSessionExpired,
		smbwire.CommandEcho:         ntstatus.NetworkSessionExpired,
		smbwire.CommandLogoff:       nil,
	} {
		f, client := newFake(t, onCommand(command, func(f *fake, h smbwire.Header, _ []byte) {
			f.reply(h, ntstatus.NetworkSessionExpired, &smbwire.ErrorResponse{})
		}))
		s, err := f.logon(client, nil)
		if err == nil {
			err = errors.Join(echo(t.Context(), s), s.Close())
		}
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", command, err)
		}
	}
}

// The end of the context ends the wait for a renewal, and no more.
func TestWaitForRenewalEndsWithItsContext(t *testing.T) {
	k := &tickets{end: time.Now().Add(time.Hour)}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan struct{})
	_, s := kerberosSession(t, k, func(f *fake) {
		expire(f)
		refuse := f.on
		f.on = func(f *fake, h smbwire.Header, body []byte) bool {
			if h.Command == smbwire.CommandSessionSetup && f.signer != nil {
				cancel()
				<-waiting
			}
			return refuse(f, h, body)
		}
	})
	if err := echo(ctx, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(waiting)
	if err := echo(t.Context(), s); err != nil {
		t.Error(err)
	}
}
